import { expect, expectTypeOf, test } from 'vitest';
import * as server from '../../../src/server/index.ts';

test('the package exports these names', () => {
  expect(Object.keys(server).sort()).toEqual([
    'DEFAULT_CONFIG',
    'DEFAULT_LISTEN_URL',
    'ExecServer',
    'ListenUrlError',
    'StartError',
    'parseListenUrl',
    'runServer',
    'serve',
    'serveStdio',
  ]);
});

test('a server runs with some settings, and each has a type', () => {
  expectTypeOf(server.runServer).toBeCallableWith({ bwrapPath: '/usr/bin/bwrap', helperDirectory: '/h' });
  expectTypeOf(server.runServer).returns.resolves.toEqualTypeOf<server.RunningServer>();
  expectTypeOf<server.ExecServerConfig['helperDirectory']>().toEqualTypeOf<string>();
  // @ts-expect-error: a misspelt setting.
  const misspelt = () => server.runServer({ lisen: 'off' });
  // @ts-expect-error: a setting of another type.
  const wrong = () => server.runServer({ maxProcesses: '100' });
  // @ts-expect-error: `serve` needs a complete configuration.
  const incomplete = () => server.serve({ listen: 'off' });
  expect([misspelt, wrong, incomplete]).toHaveLength(3);
});

test('a name that is not a setting is refused, with a suggestion', async () => {
  const misspelt = { lisen: 'off' } as object;
  await expect(server.runServer(misspelt)).rejects.toThrow(
    new TypeError("unknown setting 'lisen'; did you mean 'listen'?"),
  );
});

test('a server without a listener runs and stops', async () => {
  const running = await server.runServer({ listen: 'off' });
  expect(running.url).toBeNull();
  await running.close();
  await running.closed;
});

test.each([
  [{ bwrapPath: 'bwrap' }, '--bwrap-path bwrap: expected an absolute path'],
  [
    { bwrapPath: '/nowhere/bwrap' },
    '--bwrap-path /nowhere/bwrap: not an executable file (ENOENT); correct it or leave it out',
  ],
  [
    { ripgrepPath: '/etc/passwd' },
    '--ripgrep-path /etc/passwd: not an executable file (EACCES); correct it or leave it out',
  ],
  [{ helperDirectory: 'dist' }, '--helper-directory dist: expected an absolute path'],
  [{ helperDirectory: '/nowhere' }, /\/nowhere\/file-helper\.cjs \(ENOENT\); set helperDirectory/],
])('refuses to start with %j', async (settings, message) => {
  const starting = server.runServer({ listen: 'off', ...settings });
  await expect(starting).rejects.toThrow(server.StartError);
  await expect(starting).rejects.toThrow(message);
});
