import { afterEach, expect, test } from 'vitest';
import { MAX_LIST_LENGTH, MAX_PATH_KEYS } from '../../../../src/protocol/limits.ts';
import { connectInMemory, type MemoryConnection } from '../../../../src/testing/index.ts';

let connection: MemoryConnection;

afterEach(() => connection.close());

async function read(configPaths: string[][], requirementsPaths: string[][] = []) {
  connection = connectInMemory();
  await connection.client.handshake();
  return connection.client.call('environmentConfig/read', {
    cwd: 'file:///',
    configPaths,
    requirementsPaths,
  });
}

test('reads the maximum number of paths and keys', async () => {
  const paths = Array.from({ length: MAX_LIST_LENGTH }, (_, index) => [`no-such-key-${index}`]);
  paths[0] = Array.from({ length: MAX_PATH_KEYS }, () => 'no-such-key');
  expect((await read(paths)).config.layers).toEqual([]);
});

test.each([
  ['configPaths', MAX_LIST_LENGTH + 1, 1, 'params.configPaths: expected at most 4096 elements'],
  ['requirementsPaths', MAX_LIST_LENGTH + 1, 1, 'params.requirementsPaths: expected at most 4096 elements'],
  ['configPaths', 1, MAX_PATH_KEYS + 1, 'params.configPaths.0: expected at most 128 elements'],
])('refuses %s with %i paths of %i keys', async (name, count, keys, message) => {
  const paths = Array.from({ length: count }, () => Array.from({ length: keys }, () => 'a'));
  const asked = name === 'configPaths' ? read(paths) : read([['a']], paths);
  await expect(asked).rejects.toThrow(message);
});
