import { afterEach, expect, test } from 'vitest';
import { MAX_PATH_KEYS, MAX_SELECTED_PATHS } from '../../../../src/files/executor-config/limits.ts';
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
  const paths = Array.from({ length: MAX_SELECTED_PATHS }, (_, index) => [`no-such-key-${index}`]);
  paths[0] = Array.from({ length: MAX_PATH_KEYS }, () => 'no-such-key');
  expect((await read(paths)).config.layers).toEqual([]);
});

test.each([
  ['configPaths', MAX_SELECTED_PATHS + 1, 1, 'params.configPaths: expected at most 4096 paths'],
  ['requirementsPaths', MAX_SELECTED_PATHS + 1, 1, 'params.requirementsPaths: expected at most 4096 paths'],
  ['configPaths', 1, MAX_PATH_KEYS + 1, 'params.configPaths: expected at most 128 keys in a path'],
])('refuses %s with %i paths of %i keys', async (name, count, keys, message) => {
  const paths = Array.from({ length: count }, () => Array.from({ length: keys }, () => 'a'));
  const asked = name === 'configPaths' ? read(paths) : read([['a']], paths);
  await expect(asked).rejects.toThrow(message);
});
