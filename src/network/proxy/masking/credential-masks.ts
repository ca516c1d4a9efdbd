import { randomInt } from 'node:crypto';
import { NetworkError } from '../../errors.ts';
import type { Destination } from './destination.ts';
import { changeBase64Parts, decodedParts, TEXT_ENCODINGS } from './encodings.ts';
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

/** A credential and the text that the program gets instead. */
export interface Mask {
  readonly provider: CredentialProvider;
  readonly credential: string;
  readonly text: string;
  /** The union of what its variables allow. */
  readonly destinations: readonly Destination[];
}

/**
 * The credentials of one program. The program never sees them: its environment contains masks. Only its own proxy can replace a mask
 * by the credential, and does so only in requests to the credential's destinations.
 */
export class CredentialMasks {
  readonly #providers: readonly CredentialProvider[];
  readonly #masks: (Mask & { readonly destinations: Destination[] })[] = [];

  /** Throws NetworkError when a provider is invalid. */
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
   * The environment with masks instead of credentials. The value of a provider's variable is a credential, whatever it looks like.
   * In other variables a credential is recognised by its pattern or because it equals a known one, also in base64 and escaped as in
   * URLs and JSON. Existing masks stay. Throws NetworkError when there are too many credentials or the environment is too large.
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
    return { ...masked, ...this.#markers(masked) };
  }

  /** Finds credentials in variables without a provider. Does not change the destinations of known credentials. */
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

  /** Returns a function that replaces credentials in texts. */
  #replacer(budget: MatchBudget): (value: string) => string {
    const pairs = this.#masks
      .filter(({ credential }) => credential.length >= MIN_EMBEDDED_LENGTH)
      // The longest first: one credential may be a prefix of another.
      .sort((a, b) => b.credential.length - a.credential.length)
      .flatMap(({ credential, text }) => encodedPairs(credential, text));
    const replaced = (value: string) =>
      pairs.reduce((text, [credential, mask]) => {
        spendSearch(budget, text);
        return text.replaceAll(credential, () => mask);
      }, value);
    return (value) => {
      const same = this.#masks.find(({ credential }) => credential === value);
      if (same !== undefined && value.length >= MIN_REPEATED_LENGTH) return same.text;
      return changeBase64Parts(replaced(value), replaced);
    };
  }

  /** Variables that name those with masks, for programs that support it. */
  #markers(masked: Environment): Record<string, string> {
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

/** The credential and its mask in each encoding; one pair when several encodings are equal. */
function encodedPairs(credential: string, mask: string): [credential: string, mask: string][] {
  const pairs = new Map<string, string>();
  for (const encode of TEXT_ENCODINGS) {
    if (!pairs.has(encode(credential))) pairs.set(encode(credential), encode(mask));
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

/** A mask in the format of the credential if possible, because programs may check the format. */
function newMask(credential: string, provider: CredentialProvider, budget: MatchBudget): string {
  if (provider.mask !== null) {
    const { prefixes, usual, length } = provider.mask;
    const prefix = prefixes.find((one) => credential.startsWith(one)) ?? usual;
    return anyMask(prefix, Math.max(length, credential.length));
  }
  const pattern = provider.patterns.find((one) => one.matches(credential, budget));
  for (let attempt = 0; pattern !== undefined && attempt < MASK_ATTEMPTS; attempt++) {
    const sample = pattern.sample(budget);
    // A colon decides whether it is a user name, a password or both.
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
