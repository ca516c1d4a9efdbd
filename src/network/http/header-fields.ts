import { NetworkError } from '../errors.ts';

/** A header of a request or a response. Names are in lower case. */
export interface HeaderField {
  readonly name: string;
  readonly value: string;
}

/** A header as a client requests it. With `valueEnvVar` the value of that variable of the server is appended to `value`. */
export interface RequestedHeader {
  readonly name: string;
  readonly value: string;
  readonly valueEnvVar?: string | null | undefined;
}

/** Environment variables by name. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** The variables that headers may use: any but the denied ones, or only those of a list. */
export type HeaderVariables = 'any' | ReadonlySet<string>;

/** Parses names of variables separated by commas. Throws NetworkError for a name that is always denied. */
export function headerVariables(list: string): ReadonlySet<string> {
  const names = list.split(',').map((name) => name.trim());
  for (const name of names) {
    if (isDenied(name)) throw invalid(`${name} is never sent in a header`);
    if (/[\s=\p{Cc}]/u.test(name)) {
      throw invalid(
        `${JSON.stringify(name)} is not the name of an environment variable; separate names with commas`,
      );
    }
  }
  return new Set(names.filter((name) => name !== ''));
}

/** The headers to send; repeated names are grouped at the position of the first. Throws NetworkError. */
export function requestFields(
  requested: readonly RequestedHeader[],
  env: Variables,
  usable: HeaderVariables,
): HeaderField[] {
  return grouped(requested.map((header) => requestField(header, env, usable)));
}

/** The received headers. Omits values that are not ASCII, because their meaning is undefined. */
export function responseFields(rawHeaders: readonly string[]): HeaderField[] {
  const fields: HeaderField[] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at]!.toLowerCase(), rawHeaders[at + 1]!];
    if (isVisibleAscii(value)) fields.push({ name, value });
  }
  return grouped(fields);
}

/** The values of a header in order. */
export function valuesOf(fields: readonly HeaderField[], name: string): string[] {
  return fields.filter((field) => field.name === name).map(({ value }) => value);
}

/** The fields without these names. */
export function without(fields: readonly HeaderField[], names: ReadonlySet<string>): HeaderField[] {
  return fields.filter(({ name }) => !names.has(name));
}

/** The fields with one header set, at the position of the existing one or at the end. */
export function withField(fields: readonly HeaderField[], field: HeaderField): HeaderField[] {
  const at = fields.findIndex(({ name }) => name === field.name);
  if (at < 0) return [...fields, field];
  const rest = without(fields, new Set([field.name]));
  return [...rest.slice(0, at), field, ...rest.slice(at)];
}

/** Whether the text is a token, as methods and header names must be. */
export function isToken(text: string): boolean {
  return /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text);
}

/** Variables with credentials for services that a client's header must not use. */
const DENIED_VARIABLES: ReadonlySet<string> = new Set([
  'OPENAI_API_KEY',
  'CODEX_API_KEY',
  'CODEX_ACCESS_TOKEN',
  'CODEX_CONNECTORS_TOKEN',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
  'AZURE_CLIENT_SECRET',
  'AZURE_FEDERATED_TOKEN_FILE',
  'GOOGLE_APPLICATION_CREDENTIALS',
  'CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN',
  'OPENAI_FEDERATION_RULE_ID',
  'OPENAI_IDENTITY_TOKEN_FILE',
  'OPENAI_WORKLOAD_IDENTITY_CONTEXT',
]);

function requestField(
  { name, value, valueEnvVar }: RequestedHeader,
  env: Variables,
  usable: HeaderVariables,
): HeaderField {
  if (!isToken(name)) throw invalid('http/request header name is invalid: invalid HTTP header name');
  const whole = valueEnvVar == null ? value : value + variable(name, valueEnvVar, env, usable);
  if (/[\x00-\x08\x0a-\x1f\x7f]/.test(whole)) {
    throw invalid(`http/request header value is invalid for ${name}: failed to parse header value`);
  }
  return { name: name.toLowerCase(), value: whole };
}

/** Says nothing about variables that may not be used, not even whether they exist. */
function variable(header: string, name: string, env: Variables, usable: HeaderVariables): string {
  const denied = `http/request header ${header} cannot use executor environment variable ${name}`;
  if (isDenied(name)) throw invalid(denied);
  if (usable !== 'any' && !usable.has(name)) {
    throw new NetworkError(
      'refused',
      `${denied}: the token has limits, and httpHeaderVariables does not list the variable`,
    );
  }
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value === undefined) {
    throw invalid(`http/request header ${header} requires executor environment variable ${name}`);
  }
  if (value === '') {
    throw invalid(`http/request header ${header} requires a non-empty executor environment variable ${name}`);
  }
  return value;
}

function isDenied(name: string): boolean {
  return DENIED_VARIABLES.has(name.toUpperCase()) || OWN_VARIABLES.test(name);
}

/** The server's own settings must not be sent in a header. */
const OWN_VARIABLES = /^EXEC_SERVER_/i;

function grouped(fields: readonly HeaderField[]): HeaderField[] {
  const byName = new Map<string, HeaderField[]>();
  for (const field of fields) {
    const same = byName.get(field.name);
    if (same === undefined) byName.set(field.name, [field]);
    else same.push(field);
  }
  return [...byName.values()].flat();
}

function isVisibleAscii(value: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(value);
}

function invalid(message: string): NetworkError {
  return new NetworkError('invalid', message);
}
