import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { MAX_URL_HOST_LENGTH } from '../../../src/base/limits.ts';
import { parseUrl } from '../../../src/base/parse-url.ts';
import { PathUriError, pathFromUri } from '../../../src/files/path-uri.ts';
import {
  MAX_ARGUMENT_LENGTH,
  MAX_ARGUMENTS,
  MAX_EXPRESSION_LENGTH,
  MAX_IDENTIFIER_LENGTH,
  MAX_LIST_LENGTH,
  MAX_NAME_LENGTH,
  MAX_NAMED_VALUES,
  MAX_PATTERN_LENGTH,
  MAX_URI_LENGTH,
  MAX_URL_LENGTH,
} from '../../../src/protocol/limits.ts';
import {
  CLIENT_METHODS,
  METHODS,
  type Method,
  methodNamed,
  NOTIFICATIONS,
} from '../../../src/protocol/registry.ts';
import { validateParams } from '../../../src/protocol/validate.ts';

interface Schema {
  readonly type?: string | readonly string[];
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly enum?: unknown;
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly propertyNames?: Schema;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

const schemaOf = (schema: z.ZodMiniType) =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Schema;

/** Everything that a client sends. */
const RECEIVED: readonly (readonly [string, z.ZodMiniType])[] = [
  ...Object.entries(METHODS).map(([name, { params }]) => [name, params] as const),
  ...Object.entries(CLIENT_METHODS).map(([name, { result }]) => [`result of ${name}`, result] as const),
  ...Object.entries(NOTIFICATIONS).flatMap(([name, { from, params }]) =>
    from === 'client' ? ([[name, params]] as const) : [],
  ),
];

/** Base64 data, which the size of the message limits, and values that the server does not read. */
const WITHOUT_LIMIT = [
  'process/write.chunk',
  'tcp/data.chunk',
  'fs/writeFile.dataBase64',
  'fs/writeBlock.chunk',
  'http/request.bodyBase64',
  'command/exec/write.chunk',
];
const NOT_READ = ['process/start.networkProxy.auditMetadata.*', 'initialized', 'environment/info'];

describe('every string and list of a request has a limit', () => {
  test.each(RECEIVED)('%s', (name, schema) => {
    expect([...unlimited(schemaOf(schema), name)].filter((path) => !WITHOUT_LIMIT.includes(path))).toEqual(
      [],
    );
  });

  test('the exceptions exist', () => {
    const all = RECEIVED.flatMap(([name, schema]) => [...unlimited(schemaOf(schema), name)]);
    expect(all).toEqual(expect.arrayContaining(WITHOUT_LIMIT));
  });
});

function* unlimited(schema: Schema, path: string): Generator<string> {
  const forms = schema.anyOf ?? schema.oneOf;
  const types = [schema.type ?? []].flat();
  if (forms !== undefined) {
    for (const form of forms) yield* unlimited(form, path);
  } else if (schema.enum !== undefined || schema.const !== undefined) {
    return;
  } else if (types.includes('string')) {
    if (schema.maxLength === undefined) yield path;
  } else if (types.includes('array')) {
    if (schema.maxItems === undefined) yield path;
    if (schema.items !== undefined) yield* unlimited(schema.items, `${path}[]`);
  } else if (types.includes('object')) {
    for (const [name, member] of Object.entries(schema.properties ?? {}))
      yield* unlimited(member, `${path}.${name}`);
    if (typeof schema.additionalProperties === 'object') {
      yield* unlimited(schema.propertyNames ?? {}, `${path} (names)`);
      yield* unlimited(schema.additionalProperties, `${path}.*`);
    }
  } else if (types.length === 0 && !NOT_READ.includes(path) && !takesNothing(path)) {
    yield path;
  }
}

function takesNothing(path: string): boolean {
  const method = methodNamed(path);
  return method !== null && !METHODS[method].params.safeParse({ unexpected: 1 }).success;
}

const start = { processId: 'p', argv: ['true'], cwd: 'file:///tmp', env: {}, tty: false };
const request = { requestId: 'r', method: 'GET', url: 'http://localhost/' };
const sandbox = (entries: unknown[]) => ({
  permissions: { type: 'managed', network: 'enabled', file_system: { type: 'restricted', entries } },
  windowsSandboxLevel: 'disabled',
});
const x = (length: number) => 'x'.repeat(length);

test.each<[Method, (length: number) => object, string, number]>([
  ['initialize', (n) => ({ clientName: x(n) }), 'clientName', MAX_NAME_LENGTH],
  ['initialize', (n) => ({ resumeSessionId: x(n) }), 'resumeSessionId', MAX_NAME_LENGTH],
  ['process/read', (n) => ({ processId: x(n) }), 'processId', MAX_IDENTIFIER_LENGTH],
  ['process/start', (n) => ({ ...start, cwd: x(n) }), 'cwd', MAX_URI_LENGTH],
  ['process/start', (n) => ({ ...start, argv: ['sh', x(n)] }), 'argv.1', MAX_ARGUMENT_LENGTH],
  ['process/start', (n) => ({ ...start, env: { A: x(n) } }), 'env.A', MAX_ARGUMENT_LENGTH],
  ['fs/readFile', (n) => ({ path: x(n) }), 'path', MAX_URI_LENGTH],
  ['fs/search', (n) => ({ path: 'file:///', pattern: x(n) }), 'pattern', MAX_EXPRESSION_LENGTH],
  ['fs/watch', (n) => ({ watchId: 'w', path: 'file:///', exclude: [x(n)] }), 'exclude.0', MAX_PATTERN_LENGTH],
  [
    'fs/readFile',
    (n) => ({ path: 'file:///', sandbox: sandbox([{ path: { type: 'path', path: x(n) }, access: 'deny' }]) }),
    'sandbox.permissions.file_system.entries.0.path.path',
    MAX_URI_LENGTH,
  ],
  ['http/request', (n) => ({ ...request, url: x(n) }), 'url', MAX_URL_LENGTH],
  [
    'http/request',
    (n) => ({ ...request, headers: [{ name: 'a', value: x(n) }] }),
    'headers.0.value',
    MAX_ARGUMENT_LENGTH,
  ],
])('%s: the error about a long string names the field and the limit (%#)', (method, params, field, limit) => {
  const validate = (length: number) =>
    validateParams(METHODS[method].params as z.ZodMiniType, params(length));
  expect(() => validate(limit)).not.toThrow();
  expect(() => validate(limit + 1)).toThrow(
    expect.objectContaining({
      code: -32602,
      message: `params.${field}: expected at most ${limit} characters`,
    }),
  );
});

test.each<[string, object, string]>([
  [
    'argv',
    { ...start, argv: Array(250_000).fill(1) },
    `params.argv: expected at most ${MAX_ARGUMENTS} elements`,
  ],
  [
    'env',
    { ...start, env: variables(MAX_NAMED_VALUES + 1) },
    `params.env: expected at most ${MAX_NAMED_VALUES} members`,
  ],
  [
    'entries of a sandbox',
    { ...start, sandbox: sandbox(Array(80_000).fill({ path: { type: 'path' } })) },
    `params.sandbox.permissions.file_system.entries: expected at most ${MAX_LIST_LENGTH} elements`,
  ],
])('the length of a list is checked before its elements: %s', (_name, params, message) => {
  expect(() => validateParams(METHODS['process/start'].params, params)).toThrow(
    expect.objectContaining({ code: -32602, message }),
  );
});

test('a list in which every element is wrong gets an ordinary error', () => {
  const params = { ...start, argv: Array(MAX_ARGUMENTS).fill(1) };
  expect(() => validateParams(METHODS['process/start'].params, params)).toThrow(
    'params.argv.0: expected string',
  );
});

function variables(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`V${index}`, '']));
}

test('a long name is not a method', () => {
  expect(methodNamed(`process/start${x(100_000)}`)).toBe(null);
});

describe('the host of a URL', () => {
  // The order of these marks makes the normalization of a host quadratic.
  const MARKS = '\u0323\u0301';
  const marks = (length: number) => MARKS.repeat(length / MARKS.length);

  test.each([
    ['file://', '/'],
    ['FILE:\\\\', '/'],
    [' \tfi\nle://', ''],
    ['http://', '/'],
    ['http:', '/'],
    ['http:/\t/\\/', '?x'],
    ['http://user:password@', '#x'],
    ['//', '/'],
    ['/\n/', ''],
  ])('is not parsed when it is too long: %j…%j', (before, after) => {
    const base = new URL('http://localhost/');
    expect(parseUrl(`${before}${marks(64_000)}${after}`, base)).toBeNull();
    expect(parseUrl(`${before}${'%CC%A3%CC%81'.repeat(5_000)}${after}`, base)).toBeNull();
    expect(parseUrl(`${before}${x(MAX_URL_HOST_LENGTH)}${after}`, base)).not.toBeNull();
  });

  test('of a long path is parsed', () => {
    const path = x(12_000);
    expect(parseUrl(`file:///tmp/${path}`)?.pathname).toBe(`/tmp/${path}`);
    expect(parseUrl(`FILE:///${path}`)?.pathname).toBe(`/${path}`);
    expect(parseUrl(`http://localhost/${path}?${path}`)?.pathname).toBe(`/${path}`);
    expect(parseUrl(`http://user:${path}@localhost/`)?.host).toBe('localhost');
    expect(parseUrl(path, new URL('http://localhost/'))?.pathname).toBe(`/${path}`);
  });

  test('of a path URI is an error like any other invalid host', () => {
    expect(() => pathFromUri(`file://${marks(8_000)}/tmp`)).toThrow(PathUriError);
    expect(pathFromUri(`file:///${'%C3%A9'.repeat(127)}`)).toHaveLength(255);
  });
});

test.each([
  ['fs/close', 'handleId'],
  ['process/write', 'writeId'],
  ['process/attach', 'name'],
] as const)('%s refuses a %s whose length cannot be converted to a number', (method, member) => {
  const params = JSON.parse(`{"processId":"p","chunk":"","${member}":{"length":{"toString":1,"valueOf":1}}}`);
  expect(() => validateParams(METHODS[method].params, params)).toThrow(`params.${member}: expected string`);
});

test('what clients and other servers send reaches the URL parser only through parseUrl', () => {
  const folders = [
    'protocol',
    'rpc',
    'process',
    'files',
    'network',
    'sandbox',
    'server',
    'audit',
    'listener',
  ];
  const root = join(import.meta.dirname, '../../../src');
  const users = folders
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) =>
        join(folder, file),
      ),
    )
    .filter((file) => file.endsWith('.ts'))
    .filter((file) =>
      /new URL\((?!.*import\.meta\.url)|URL\.canParse\(/.test(readFileSync(join(root, file), 'utf8')),
    );
  expect(users.sort()).toEqual([
    // A URL that is parsed already, without its user.
    'network/http/request.ts',
    // The environment of the server.
    'network/http/route.ts',
    // Hosts of at most 253 characters, and addresses.
    'network/proxy/host.ts',
    'network/proxy/socks5-address.ts',
    // Addresses that the kernel reports.
    'process/tree/listening-ports.ts',
    // The server's own address.
    'server/exec-server.ts',
  ]);
});
