import { NetworkError } from '../../errors.ts';
import { Destination } from './destination.ts';
import { MAX_PROVIDER_ENTRIES } from './limits.ts';
import type { StateBudget } from './patterns/automaton.ts';
import { CredentialPattern } from './patterns/credential-pattern.ts';

/** The variables of a program. */
export type Environment = Readonly<Record<string, string>>;

/** The value of a variable; ignores inherited properties of the object. */
export function valueIn(env: Environment, variable: string): string | undefined {
  return Object.hasOwn(env, variable) ? env[variable] : undefined;
}

/** How a credential is sent: in `Authorization` with one of three schemes, or in a separate header. */
export type AuthMethod = 'bearer' | 'token' | 'basic' | 'header';

/** A kind of credentials: their variables and patterns, and where and how they may be sent. */
export interface CredentialProvider {
  readonly variables: readonly string[];
  readonly patterns: readonly CredentialPattern[];
  readonly methods: ReadonlySet<AuthMethod>;
  /** For the method `header`: its lower-case name, and the text before the credential. */
  readonly header: { readonly name: string; readonly prefix: string } | null;
  /** Where a credential from this variable may be sent; empty when the environment does not name a destination. */
  destinations(variable: string, env: Environment): readonly Destination[];
  /** Prefixes and minimum length of masks; null when masks follow the patterns. */
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

/** Reads a provider. Throws NetworkError when it is invalid: ignoring it would expose its credentials. */
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
  if (misnamed !== undefined) throw wrong(`invalid environment variable name: ${JSON.stringify(misnamed)}`);
  const claimed = env.find((name) => taken.has(name));
  if (claimed !== undefined) throw wrong(`${claimed} already belongs to another provider`);
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
  if ((header !== null) !== isUsed)
    throw wrong('header is required if auth contains `header`, and only then');
  if (header === null) {
    if (prefix !== null) throw wrong('prefix requires a header');
    return null;
  }
  if (!TOKEN.test(header)) throw wrong('the header name is invalid');
  if (RESERVED.has(header.toLowerCase())) throw wrong(`${header} cannot carry credentials`);
  if (!PRINTABLE.test(prefix ?? '')) throw wrong('the prefix has characters that a header cannot contain');
  return { name: header.toLowerCase(), prefix: prefix ?? '' };
}

/** Empty for an invalid URL prefix or one with a wildcard: a program's variables may contain anything. */
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

/** Headers for message framing and routing. */
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
