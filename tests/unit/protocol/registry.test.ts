import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { CAPABILITIES } from '../../../src/protocol/environment.ts';
import { METHODS, methodNamed, NOTIFICATIONS } from '../../../src/protocol/registry.ts';

const methods = Object.entries(METHODS);
const notifications = Object.entries(NOTIFICATIONS);

const jsonSchema = (schema: z.ZodMiniType, io: 'input' | 'output') =>
  z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Schema;

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly description?: string;
  readonly required?: readonly string[];
}

test.each(methods)('%s is documented and its schemas can be generated', (_name, definition) => {
  expect(definition.summary).toMatch(/^[A-Z`].*\.$/);
  expect(definition.family).not.toBe('');
  expect(jsonSchema(definition.params, 'input')).toBeTypeOf('object');
  expect(jsonSchema(definition.result, 'output')).toMatchObject({ type: 'object' });
});

test.each(notifications)('%s is documented and its schema can be generated', (_name, definition) => {
  expect(definition.summary).toMatch(/^[A-Z`].*\.$/);
  expect(jsonSchema(definition.params, 'input')).toBeTypeOf('object');
});

test.each(methods)('%s has a capability when it is an extension', (_name, { origin, capability }) => {
  // Some methods of the reference have a capability too.
  if (origin !== 'reference') expect(capability).toBeDefined();
  if (capability !== undefined) expect(CAPABILITIES).toHaveProperty(capability);
});

test.each(methods)('the params of %s contain its subject', (_name, { subject, params }) => {
  if (subject === undefined) return;
  expect(JSON.stringify(jsonSchema(params, 'input'))).toContain(`"${subject}"`);
});

test('requests that must get through on a busy connection use the control lane', () => {
  const control = methods.filter(([, { lane }]) => lane === 'control').map(([name]) => name);
  expect(control).toEqual(
    expect.arrayContaining([
      'environment/info',
      'environment/status',
      'process/signal',
      'process/terminate',
      'process/closeStdin',
      'command/exec/terminate',
    ]),
  );
  expect(control).not.toContain('process/start');
  expect(control).not.toContain('process/write');
});

test.each([
  ['process/output', 'seq', /Position among all events/],
  ['process/exited', 'exitCode', /128 \+ n/],
] as const)('%s describes its own %s', (name, field, description) => {
  expect(jsonSchema(NOTIFICATIONS[name].params, 'input').properties?.[field]?.description).toMatch(
    description,
  );
});

test('a field without a description does not inherit that of another', () => {
  const { properties } = jsonSchema(METHODS['process/snapshot'].result, 'output');
  expect(properties?.nextSeq?.description).toBeUndefined();
  expect(jsonSchema(METHODS['process/read'].result, 'output').properties?.nextSeq?.description).toMatch(
    /To continue/,
  );
  expect(jsonSchema(METHODS['process/write'].params, 'input').properties?.chunk?.description).toMatch(
    /stdin/,
  );
});

test.each([
  ['process/start', 'process/start'],
  ['process/exec', 'process/start'],
  ['initialized', null],
  ['constructor', null],
  ['__proto__', null],
  ['toString', null],
  ['Process/Start', null],
  ['', null],
])('%s names the method %s', (name, method) => {
  expect(methodNamed(name)).toBe(method);
});
