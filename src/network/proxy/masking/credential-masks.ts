import { randomInt } from 'node:crypto';
import { NetworkError } from '../../errors.ts';
import type { Destination } from './destination.ts';
import { changedInside, decodedParts, SPELLINGS } from './encodings.ts';
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
import {
  type MatchBudget,
  newBudget,
  newStates,
  type StateBudget,
  spendSearch,
} from './patterns/automaton.ts';
import {
  type CredentialProvider,
  type Environment,
  type ProviderSettings,
  readProvider,
  valueIn,
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
    const states = newStates();
    for (const [name, settings] of entries) {
      providers.push(namedProvider(name, settings, taken, states));
      for (const variable of settings.env) taken.add(variable);
    }
    this.#providers = providers;
  }

  get all(): readonly Mask[] {
    return this.#masks;
  }

  /**
   * The same environment with masks. What a variable of a provider holds is a credential, whatever it looks like; elsewhere
   * it is known by what it looks like, or by being one of those, also in base64 and as URLs and JSON write it. Masks that are in the
   * environment already stay. Throws NetworkError when there are more credentials than can be kept, or too much to look through.
   */
  cover(env: Environment): Record<string, string> {
    const budget = newBudget();
    const masked: Record<string, string> = { ...env };
    for (const provider of this.#providers) {
      for (const variable of provider.variables) {
        const value = (valueIn(env, variable) ?? '').trim();
        if (value !== '') masked[variable] = this.#maskOf(value, provider, variable, env, budget);
      }
    }
    this.#discover(masked, env, budget);
    const replaced = this.#replacer(budget);
    for (const [name, value] of Object.entries(masked)) masked[name] = replaced(value);
    return { ...masked, ...this.#marks(masked) };
  }

  /** Finds credentials in variables that belong to no provider. Where known ones and masks may be sent is settled already. */
  #discover(masked: Environment, env: Environment, budget: MatchBudget): void {
    const values = Object.values(masked);
    for (const value of [...values, ...values.flatMap(decodedParts)]) {
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

  /** Replaces credentials in texts. */
  #replacer(budget: MatchBudget): (value: string) => string {
    const pairs = this.#masks
      .filter(({ credential }) => credential.length >= MIN_EMBEDDED_LENGTH)
      // The longest first: one credential may be the beginning of another.
      .sort((a, b) => b.credential.length - a.credential.length)
      .flatMap(({ credential, text }) => spelledPairs(credential, text));
    const replaced = (value: string) =>
      pairs.reduce((text, [credential, mask]) => {
        spendSearch(budget, text);
        return text.replaceAll(credential, () => mask);
      }, value);
    return (value) => {
      const same = this.#masks.find(({ credential }) => credential === value);
      if (same !== undefined && value.length >= MIN_REPEATED_LENGTH) return same.text;
      return changedInside(replaced(value), replaced);
    };
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

/** Both in each way of writing them, once where several are the same for the credential. */
function spelledPairs(credential: string, mask: string): [credential: string, mask: string][] {
  const pairs = new Map<string, string>();
  for (const spell of SPELLINGS) {
    if (!pairs.has(spell(credential))) pairs.set(spell(credential), spell(mask));
  }
  return [...pairs];
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
  states: StateBudget,
): CredentialProvider {
  try {
    return readProvider(settings, taken, states);
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
    if (sample !== null && sample.includes(':') === credential.includes(':')) return sample;
  }
  return anyMask('', Math.max(MIN_MASK_LENGTH, credential.length));
}

function anyMask(prefix: string, length: number): string {
  let text = `${prefix}masked`;
  while (text.length < Math.min(length, MAX_MASK_LENGTH)) text += LETTERS[randomInt(LETTERS.length)];
  return text;
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
