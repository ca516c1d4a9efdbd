import { NetworkError } from '../../errors.ts';
import { Destination } from './destination.ts';
import { MAX_PROVIDER_ENTRIES } from './limits.ts';
import type { StateBudget } from './patterns/automaton.ts';
import { CredentialPattern } from './patterns/credential-pattern.ts';

/** The variables of a program. */
export type Environment = Readonly<Record<string, string>>;

/** What a variable holds; nothing else that objects have by themselves. */
export function valueIn(env: Environment, variable: string): string | undefined {
  return Object.hasOwn(env, variable) ? env[variable] : undefined;
}

/** How a credential is sent: in `Authorization` in one of three ways, or alone in a header of its own. */
export type AuthMethod = 'bearer' | 'token' | 'basic' | 'header';

/** A family of credentials: where they are found, what they look like, where they may be sent and how. */
export interface CredentialProvider {
  readonly variables: readonly string[];
  readonly patterns: readonly CredentialPattern[];
  readonly methods: ReadonlySet<AuthMethod>;
  /** For the method `header`: its name in lower case, and what stands before the credential. */
  readonly header: { readonly name: string; readonly prefix: string } | null;
  /** Where a credential from this variable may be sent; nowhere when the environment does not say where. */
  destinations(variable: string, env: Environment): readonly Destination[];
  /** What masks begin with and how long they are at least; null where they follow the patterns. */
  readonly mask: {
    readonly prefixes: readonly string[];
    readonly usual: string;
    readonly length: number;
  } | null;
}

/** A provider as a client describes it. */
export interface ProviderSettings {
  readonly env: readonly string[];
  readonly patterns: readonly string[];
  readonly url_prefixes: readonly string[];
  readonly url_prefix_from_env?: string | null | undefined;
  readonly auth: readonly AuthMethod[];
  readonly header?: string | null | undefined;
  readonly prefix?: string | null | undefined;
}

/**
 * Reads a provider. Throws NetworkError when it makes no sense: whoever describes one relies on it, so that leaving it out would give
 * its credentials away.
 */
export function readProvider(
  settings: ProviderSettings,
  taken: ReadonlySet<string>,
  states: StateBudget,
): CredentialProvider {
  const { env, url_prefix_from_env: from = null } = settings;
  for (const [name, list] of Object.entries({
    env,
    patterns: settings.patterns,
    url_prefixes: settings.url_prefixes,
  })) {
    if (list.length > MAX_PROVIDER_ENTRIES) throw wrong(`more than ${MAX_PROVIDER_ENTRIES} ${name}`);
  }
  if (env.length === 0) throw wrong('no environment variable is named');
  if (settings.patterns.length === 0) throw wrong('no pattern is given');
  if (settings.url_prefixes.length === 0 && from === null) throw wrong('no URL prefix is given');
  const misnamed = [...env, ...(from === null ? [] : [from])].find((name) => !VARIABLE.test(name));
  if (misnamed !== undefined) throw wrong(`no variable can be called ${JSON.stringify(misnamed)}`);
  const claimed = env.find((name) => taken.has(name));
  if (claimed !== undefined) throw wrong(`${claimed} is taken by another provider`);
  if (from !== null && env.includes(from)) throw wrong(`${from} cannot be a credential and a URL prefix`);
  const methods = new Set<AuthMethod>(settings.auth.length === 0 ? ['bearer'] : settings.auth);
  const fixed = settings.url_prefixes.map((prefix) => new Destination(prefix));
  return {
    variables: env,
    patterns: settings.patterns.map((pattern) => new CredentialPattern(pattern, states)),
    methods,
    header: readHeader(settings, methods.has('header')),
    destinations: (_, program) => [...fixed, ...(from === null ? [] : destinationIn(valueIn(program, from)))],
    mask: null,
  };
}

function readHeader(
  { header = null, prefix = null }: ProviderSettings,
  isUsed: boolean,
): CredentialProvider['header'] {
  if ((header !== null) !== isUsed) throw wrong('a header is named exactly where auth has `header`');
  if (header === null) {
    if (prefix !== null) throw wrong('a prefix stands in a header; none is named');
    return null;
  }
  if (!TOKEN.test(header)) throw wrong('the header has a name that no header has');
  if (RESERVED.has(header.toLowerCase())) throw wrong(`${header} is not a header for credentials`);
  if (!PRINTABLE.test(prefix ?? '')) throw wrong('the prefix has characters that no header has');
  return { name: header.toLowerCase(), prefix: prefix ?? '' };
}

/** A variable that names no place, or many, names none: it is the program's and may hold anything. */
function destinationIn(value: string | undefined): Destination[] {
  if (value === undefined || /^(?:[^/]*\/\/)?\*/.test(value.trim())) return [];
  try {
    return [new Destination(value)];
  } catch {
    return [];
  }
}

function wrong(what: string): NetworkError {
  return new NetworkError('invalid', what);
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const PRINTABLE = /^[\x20-\x7e]*$/;

/** Headers that say where a message ends or goes. */
const RESERVED = new Set([
  'connection',
  'content-length',
  'host',
  'keep-alive',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
