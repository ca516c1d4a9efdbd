import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, expectTypeOf, onTestFinished, test } from 'vitest';
import * as server from '../../../src/server/index.ts';

test('the package exports these names', () => {
  expect(Object.keys(server).sort()).toEqual([
    'ConfigError',
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

test('a setting takes a number or the text of the command line', () => {
  type Settings = server.ServerSettings;
  expectTypeOf<Settings['maxProcesses']>().toEqualTypeOf<number | undefined>();
  expectTypeOf<Settings['logLevel']>().toEqualTypeOf<'debug' | 'info' | 'warn' | 'error' | undefined>();
  expectTypeOf<Settings['metrics']>().toEqualTypeOf<boolean | undefined>();
  expectTypeOf<Settings['httpAllowedHosts']>().toEqualTypeOf<string | undefined>();
  expectTypeOf<5 | '5ms' | '5s' | '5m' | '5h'>().toExtend<Settings['maxProcessWallMs']>();
  expectTypeOf<5 | '5KiB' | '5MiB' | '5GiB'>().toExtend<Settings['maxProcessMemoryBytes']>();
  expectTypeOf<'none'>().toExtend<Settings['detachedSessionTtlMs']>();
  expectTypeOf<'none'>().not.toExtend<Settings['maxProcessWallMs']>();
  expectTypeOf<'5'>().not.toExtend<Settings['maxProcessWallMs']>();
  expectTypeOf<'5d'>().not.toExtend<Settings['maxProcessWallMs']>();
  expectTypeOf<'1.5s'>().not.toExtend<Settings['maxProcessWallMs']>();
  expectTypeOf<'5s'>().not.toExtend<Settings['maxProcessMemoryBytes']>();
  expectTypeOf<server.ExecServerConfig>().toExtend<Settings>();
  expectTypeOf<server.ConfigError>().toExtend<server.StartError>();
  expectTypeOf<server.ListenUrlError>().toExtend<server.StartError>();
});

test('a port that is in use refuses the start', async () => {
  const occupied = await server.runServer({ logLevel: 'error' });
  try {
    const starting = server.runServer({ listen: occupied.url! });
    await expect(starting).rejects.toThrow(server.StartError);
    await expect(starting).rejects.toThrow(`cannot listen on ${occupied.url}: the port is in use`);
  } finally {
    await occupied.close();
  }
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
  [{ listen: 'stdio' }, 'listen: `stdio` has no address; call serveStdio with the streams'],
  [{ listen: 'tcp://x' }, 'unsupported --listen URL `tcp://x`'],
  [{ bwrapPath: '/tmp' }, '--bwrap-path /tmp: not an executable file (EISDIR); correct it or leave it out'],
  [{ helperDirectory: 'dist' }, '--helper-directory dist: expected an absolute path'],
  [{ helperDirectory: '/nowhere' }, /\/nowhere\/file-helper\.cjs \(ENOENT\); set helperDirectory/],
])('refuses to start with %j', async (settings, message) => {
  const starting = server.runServer({ listen: 'off', ...settings });
  await expect(starting).rejects.toThrow(server.StartError);
  await expect(starting).rejects.toThrow(message);
});

describe('a program that other users could replace', () => {
  /** A directory with a program and the two helper files. */
  function programs(): string {
    const directory = mkdtempSync(join(tmpdir(), 'programs-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const files = ['program', 'file-helper.cjs', 'file-search-thread.cjs'];
    for (const name of files) writeFileSync(join(directory, name), '#!/bin/sh\n', { mode: 0o755 });
    return directory;
  }
  const settingsOf = (directory: string) => [
    { bwrapPath: join(directory, 'program') },
    { ripgrepPath: join(directory, 'program') },
    { helperDirectory: directory },
  ];

  test.each<[string, (directory: string) => void]>([
    ['the files can be written', (directory) => changeFiles(directory, (file) => chmodSync(file, 0o777))],
    ['a group can write the directory', (directory) => chmodSync(directory, 0o775)],
  ])('is refused at the start: %s', async (_, weaken) => {
    const directory = programs();
    weaken(directory);
    for (const settings of settingsOf(directory)) {
      await expect(server.runServer({ listen: 'off', ...settings })).rejects.toThrow(
        /^--[a-z-]+ .*: the program cannot be trusted because .* can be changed by other users; only root/,
      );
    }
  });

  test.runIf(process.geteuid?.() === 0)('is refused at the start: another user owns it', async () => {
    const directory = programs();
    changeFiles(directory, (file) => chownSync(file, NOBODY, NOBODY));
    for (const settings of settingsOf(directory)) {
      await expect(server.runServer({ listen: 'off', ...settings })).rejects.toThrow(
        'belongs to another user',
      );
    }
  });

  test('is refused at the start: others can replace a link to it', async () => {
    const directory = programs();
    const links = join(directory, 'links');
    mkdirSync(links);
    chmodSync(links, 0o777);
    symlinkSync(join(directory, 'program'), join(links, 'rg'));
    const starting = server.runServer({ listen: 'off', ripgrepPath: join(links, 'rg') });
    await expect(starting).rejects.toThrow(`${links} can be changed by other users`);
  });

  test('starts with the same files when only this user can write them', async () => {
    const directory = programs();
    symlinkSync('program', join(directory, 'link'));
    for (const settings of [...settingsOf(directory), { ripgrepPath: join(directory, 'link') }]) {
      await (await server.runServer({ listen: 'off', ...settings })).close();
    }
  });

  function changeFiles(directory: string, change: (file: string) => void): void {
    for (const name of readdirSync(directory)) change(join(directory, name));
  }
});

const NOBODY = 65_534;
