import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { BYTES_MEMBERS, bytesMemberOf } from '../../../src/protocol/bytes-members.ts';
import { METHODS, NOTIFICATIONS } from '../../../src/protocol/registry.ts';

/** The top-level members of a schema that hold large base64. The protocol names them so. */
function base64Members(schema: z.ZodMiniType): string[] {
  const { properties = {} } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return Object.entries(properties)
    .filter(
      ([name, member]) => /^(?:chunk|\w+Base64)$/.test(name) && JSON.stringify(member).includes('"string"'),
    )
    .map(([name]) => name);
}

/** The message kinds of a table of definitions that have such a member. */
function found(schemas: readonly (readonly [string, z.ZodMiniType])[]): Record<string, string> {
  const members = schemas.map(([name, schema]) => [name, base64Members(schema)] as const);
  for (const [name, { length }] of members) expect(length, name).toBeLessThan(2);
  return Object.fromEntries(
    members.flatMap(([name, [member]]) => (member === undefined ? [] : [[name, member]])),
  );
}

test('lists the base64 member of every message that has one', () => {
  const methods = Object.entries(METHODS);
  expect(found(methods.map(([name, { params }]) => [name, params]))).toEqual(BYTES_MEMBERS.requests);
  expect(found(methods.map(([name, { result }]) => [name, result]))).toEqual(BYTES_MEMBERS.results);
  const notifications = Object.entries(NOTIFICATIONS).map(([name, { params }]) => [name, params] as const);
  expect(found(notifications)).toEqual(BYTES_MEMBERS.notifications);
});

test('has no member for other names', () => {
  expect(bytesMemberOf('requests', 'process/write')).toBe('chunk');
  for (const name of ['environment/status', 'constructor', '__proto__', '']) {
    expect(bytesMemberOf('requests', name)).toBeNull();
  }
});
