import { randomInt } from 'node:crypto';
import { NetworkError } from '../../errors.ts';
import type { Destination } from './destination.ts';
import { KNOWN_PROVIDERS, KNOWN_VARIABLES } from './known-providers.ts';
import {
  MASK_ATTEMPTS,
  MAX_MASK_LENGTH,
  MAX_MASKS,
  MAX_PROVIDERS,
  MIN_EMBEDDED_LENGTH,
  MIN_MASK_LENGTH,
  MIN_REPEATED_LENGTH,
} from './limits.ts';
import { type MatchBudget, newBudget } from './patterns/automaton.ts';
import {
  type CredentialProvider,
  type Environment,
  type ProviderSettings,
  readProvider,
} from './provider.ts';

/** A credential and what its program has in its place. */
export interface Mask {
  readonly provider: CredentialProvider;
  readonly credential: string;
  readonly text: string;
  /** Whatever each variable says in which it was found. */
  readonly destinations: readonly Destination[];
}

/**
 * The credentials of one program. It never sees them: its environment holds masks, which nobody but its own proxy can turn back,
 * and that only does so in requests to where a credential belongs.
 */
export class CredentialMasks {
  readonly #providers: readonly CredentialProvider[];
  readonly #masks: (Mask & { readonly destinations: Destination[] })[] = [];

  /** Throws NetworkError when a provider makes no sense. */
  constructor(described: Readonly<Record<string, ProviderSettings>>) {
    const entries = Object.entries(described);
    if (entries.length > MAX_PROVIDERS) {
      throw new NetworkError('invalid', `credentialProviders: there are more than ${MAX_PROVIDERS}`);
    }
    const taken = new Set(KNOWN_VARIABLES);
    const providers = [...KNOWN_PROVIDERS];
    for (const [name, settings] of entries) {
      providers.push(namedProvider(name, settings, taken));
      for (const variable of settings.env) taken.add(variable);
    }
    this.#providers = providers;
  }

  get all(): readonly Mask[] {
    return this.#masks;
  }

  /**
   * The same environment with masks. What a variable of a provider holds is a credential, whatever it looks like; elsewhere
   * it is known by what it looks like, or by being one of those. Masks that are in the environment already stay. Throws NetworkError
   * when there are more credentials than can be kept.
   */
  cover(env: Environment): Record<string, string> {
    const budget = newBudget();
    const masked: Record<string, string> = { ...env };
    for (const provider of this.#providers) {
      for (const variable of provider.variables) {
        const value = (env[variable] ?? '').trim();
        if (value !== '') masked[variable] = this.#maskOf(value, provider, variable, env, budget);
      }
    }
    this.#discover(masked, env, budget);
    for (const [name, value] of Object.entries(masked)) masked[name] = this.#replaced(value);
    return { ...masked, ...this.#marks(masked) };
  }

  /** Finds credentials in variables that belong to no provider. Where known ones and masks may be sent is settled already. */
  #discover(masked: Environment, env: Environment, budget: MatchBudget): void {
    for (const value of Object.values(masked)) {
      for (const provider of this.#providers) {
        for (const pattern of provider.patterns) {
          for (const found of pattern.findIn(value, budget)) {
            if (this.#masks.some(({ text, credential }) => text === found || credential === found)) continue;
            this.#maskOf(found, provider, provider.variables[0] ?? '', env, budget);
          }
        }
      }
    }
  }

  #maskOf(
    value: string,
    provider: CredentialProvider,
    variable: string,
    env: Environment,
    budget: MatchBudget,
  ): string {
    const destinations = provider.destinations(variable, env);
    const known = this.#masks.find(
      (mask) => mask.text === value || (mask.credential === value && mask.provider === provider),
    );
    if (known !== undefined) {
      if (known.provider === provider) addMissing(known.destinations, destinations);
      return known.text;
    }
    if (this.#masks.length >= MAX_MASKS) {
      throw new NetworkError('invalid', `credentialMasking: there are more than ${MAX_MASKS} credentials`);
    }
    const text = newMask(value, provider, budget);
    this.#masks.push({ provider, credential: value, text, destinations: [...destinations] });
    return text;
  }

  /** The longest first: one credential may be the beginning of another. */
  #replaced(value: string): string {
    let text = value;
    for (const mask of [...this.#masks].sort((a, b) => b.credential.length - a.credential.length)) {
      if (text === mask.credential && text.length >= MIN_REPEATED_LENGTH) return mask.text;
      if (mask.credential.length >= MIN_EMBEDDED_LENGTH) text = text.replaceAll(mask.credential, mask.text);
    }
    return text;
  }

  /** What tells programs that know of it which variables hold masks. */
  #marks(masked: Environment): Record<string, string> {
    const marks: [string, string][] = [];
    for (const [name, value] of Object.entries(masked)) {
      if (name === MARK || name === ACTIVE) continue;
      for (const { text, provider } of this.#masks) {
        if (!value.includes(text)) continue;
        marks.push([`@alias:${name}`, text]);
        if (provider.variables.includes(name)) marks.push([name, text]);
      }
    }
    marks.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    return { [ACTIVE]: '1', [MARK]: JSON.stringify(marks) };
  }
}

function addMissing(list: Destination[], more: readonly Destination[]): void {
  for (const one of more) if (!list.some((other) => other.key === one.key)) list.push(one);
}

const ACTIVE = 'CODEX_NETWORK_PROXY_CREDENTIAL_BROKER_ACTIVE';
const MARK = 'CODEX_NETWORK_PROXY_BROKERED_CREDENTIALS';

function namedProvider(
  name: string,
  settings: ProviderSettings,
  taken: ReadonlySet<string>,
): CredentialProvider {
  try {
    return readProvider(settings, taken);
  } catch (error) {
    throw new NetworkError(
      'invalid',
      `credentialProviders[${JSON.stringify(name)}]: ${(error as Error).message}`,
    );
  }
}

/** Of the credential's shape if that can be had: programs may check it before they use it. */
function newMask(credential: string, provider: CredentialProvider, budget: MatchBudget): string {
  if (provider.mask !== null) {
    const { prefixes, usual, length } = provider.mask;
    const prefix = prefixes.find((one) => credential.startsWith(one)) ?? usual;
    return anyMask(prefix, Math.max(length, credential.length));
  }
  const pattern = provider.patterns.find((one) => one.matches(credential, budget));
  for (let attempt = 0; pattern !== undefined && attempt < MASK_ATTEMPTS; attempt++) {
    const sample = pattern.sample(budget);
    // Whether there is a colon in it decides which half of a user's name and password it is.
    if (sample !== null && sample !== credential && sample.includes(':') === credential.includes(':'))
      return sample;
  }
  return anyMask('', Math.max(MIN_MASK_LENGTH, credential.length));
}

function anyMask(prefix: string, length: number): string {
  let text = `${prefix}masked`;
  while (text.length < Math.min(length, MAX_MASK_LENGTH)) text += LETTERS[randomInt(LETTERS.length)];
  return text;
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
