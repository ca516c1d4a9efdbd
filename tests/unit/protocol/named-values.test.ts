import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { MAX_KEY_LENGTH } from '../../../src/protocol/limits.ts';
import { namedValues } from '../../../src/protocol/named-values.ts';
import { METHODS } from '../../../src/protocol/registry.ts';
import { doc, optional } from '../../../src/protocol/scalars.ts';
import { validateParams } from '../../../src/protocol/validate.ts';

const named = (json: string, schema: z.ZodMiniType = namedValues(z.string())) =>
  Object.entries(schema.parse(JSON.parse(json)) as object);

test.each(['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '', '0'])(
  'keeps the name %j',
  (name) => {
    expect(named(`{"A":"1",${JSON.stringify(name)}:"x"}`)).toContainEqual([name, 'x']);
  },
);

test('copies of a schema keep the name', () => {
  const inside = z.object({ values: doc(optional(namedValues(z.string())), 'described') });
  const parsed = inside.parse(JSON.parse('{"values":{"__proto__":"x"}}')) as { values: object };
  expect(Object.entries(parsed.values)).toEqual([['__proto__', 'x']]);
  expect(named('{"__proto__":"x"}', doc(namedValues(z.string()), 'described'))).toEqual([['__proto__', 'x']]);
});

test('a value of that name is validated, gets its defaults and does not become a prototype', () => {
  const schema = namedValues(z.object({ a: z._default(z.number(), 5) }));
  const parsed = schema.parse(JSON.parse('{"__proto__":{"b":1}}'));
  expect(Object.entries(parsed)).toEqual([['__proto__', { a: 5 }]]);
  expect(Object.getPrototypeOf(parsed)).toBe(Object.prototype);
  expect('b' in {}).toBe(false);
  expect(schema.safeParse(JSON.parse('{"__proto__":{"a":"no"}}')).error?.issues).toMatchObject([
    { path: ['__proto__', 'a'], code: 'invalid_type' },
  ]);
});

test.each([null, 5, 'text', [], [['__proto__', 'x']]])('refuses %j', (value) => {
  expect(namedValues(z.string()).safeParse(value).success).toBe(false);
});

test('generates the JSON schema of a record', () => {
  const described = (schema: z.ZodMiniType) => z.toJSONSchema(schema);
  expect(described(namedValues(z.string()))).toEqual(
    described(z.record(z.string().check(z.maxLength(MAX_KEY_LENGTH)), z.string())),
  );
});

const start = { processId: 'p', argv: ['true'], cwd: 'file:///tmp', env: {}, tty: false };
const policy = { inherit: 'all', ignoreDefaultExcludes: false, exclude: [], set: {}, includeOnly: [] };
const proxy = {
  enabled: true,
  enableSocks5: false,
  enableSocks5Udp: false,
  allowUpstreamProxy: false,
  dangerouslyAllowAllUnixSockets: false,
  mode: 'full',
  allowLocalBinding: false,
};
const launch = (settings: object, more: object = {}) => ({
  ...start,
  networkProxy: { proxy: { ...proxy, ...settings }, ...more },
});
const io = { type: 'pipe', stdin: 'open' };
const VALUES = JSON.parse('{"__proto__":"x"}') as object;
const RULES = JSON.parse('{"__proto__":"deny"}') as object;
const PROVIDERS = JSON.parse('{"__proto__":{"env":["A"]}}') as object;

test.each<['process/start' | 'command/exec', string[], object]>([
  ['process/start', ['env'], { ...start, env: VALUES }],
  ['process/start', ['envPolicy', 'set'], { ...start, envPolicy: { ...policy, set: VALUES } }],
  ['process/start', ['direct', 'env'], { direct: { ...start, env: VALUES, io } }],
  ['process/start', ['prepared', 'request', 'env'], preparedStart()],
  ['process/start', ['networkProxy', 'proxy', 'domains'], launch({ domains: RULES })],
  ['process/start', ['networkProxy', 'proxy', 'unixSockets'], launch({ unixSockets: RULES })],
  [
    'process/start',
    ['networkProxy', 'proxy', 'credentialProviders'],
    launch({ credentialProviders: PROVIDERS }),
  ],
  ['process/start', ['networkProxy', 'auditMetadata'], launch({}, { auditMetadata: VALUES })],
  ['command/exec', ['env'], { ...start, cwd: '/tmp', env: VALUES }],
])('%s keeps it in %j', (method, path, params) => {
  const valid: unknown = validateParams(METHODS[method].params as z.ZodMiniType, params);
  const values = path.reduce((part, key) => (part as Record<string, unknown>)[key], valid);
  expect(Object.keys(values as object)).toEqual(['__proto__']);
});

test('names it in the error', () => {
  const env = JSON.parse('{"__proto__":null}');
  expect(() => validateParams(METHODS['process/start'].params, { ...start, env })).toThrow(
    'params.env.__proto__: expected string',
  );
});

function preparedStart(): object {
  return { prepared: { processId: 'p', request: { ...start, env: VALUES }, io } };
}
