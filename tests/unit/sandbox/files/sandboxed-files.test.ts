import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type NativePath, nativePathOfText } from '../../../../src/files/native-path.ts';
import { uriFromPath } from '../../../../src/files/path-uri.ts';
import type { SandboxedFiles } from '../../../../src/sandbox/files/sandboxed-files.ts';
import { EXISTS, NO_ENTRY, outcome } from '../../files/local/scratch.ts';
import {
  DENIED,
  FOLLOW,
  HelperFixture,
  operationsAt,
  READ_ALL,
  READ_ONLY,
  WRITE_WORKSPACE,
  waitingForever,
} from './helper-fixture.ts';
import { sameAnswers } from './same-answers.ts';

/** The errors for changes that could only take effect inside the sandbox. */
const NOT_ON_HOST = expect.stringMatching(
  /^failed: Read-only file system \(os error 30\): at \/.* the sandbox has a directory of its own, and nothing in it reaches the host/,
);
const PROTECTED = expect.stringMatching(
  /^failed: Read-only file system \(os error 30\): .* does not exist, and the sandbox protects its name/,
);
const BUSY = 'failed: Resource busy (os error 16)';
const WALK = {
  maxDepth: 8,
  maxDirectories: 1_000,
  maxEntries: 10_000,
  followDirectorySymlinks: false,
  pruneHiddenDirectories: false,
};

describe('files under a policy', () => {
  const fixture = new HelperFixture();
  const { at, entry, denyGlob } = fixture;

  const { write, read, mkdir, remove, names } = operationsAt(at);

  describe('that allows writing to the workspace only', () => {
    test('allows changes in the workspace', async () => {
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
      expect(await write(files, 'ws/a')).toBe('done');
      expect(readFileSync(at('ws/a'), 'utf8')).toBe('new');
      expect(await mkdir(files, 'ws/d/e', true)).toBe('done');
      expect(await outcome(files.copy(at('ws/a'), at('ws/d/b'), { recursive: false }))).toBe('done');
      expect(await outcome(files.rename(at('ws/d/b'), at('ws/c')))).toBe('done');
      expect(await remove(files, 'ws/d')).toBe('done');
      expect(readdirSync(at('ws')).sort()).toEqual(['a', 'c']);
    });

    test('denies changes outside', async () => {
      mkdirSync(at('out'));
      writeFileSync(at('out/a'), 'old');
      writeFileSync(at('ws/a'), 'old');
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
      expect(await write(files, 'out/a')).toBe(READ_ONLY);
      expect(await write(files, 'out/b')).toBe(READ_ONLY);
      expect(await mkdir(files, 'out/d/e', true)).toBe(READ_ONLY);
      expect(await remove(files, 'out/a')).toBe(READ_ONLY);
      expect(await outcome(files.copy(at('ws/a'), at('out/b'), { recursive: false }))).toBe(READ_ONLY);
      expect(await outcome(files.rename(at('ws/a'), at('out/b')))).toMatch(/Cross-device|Read-only/);
      expect(await outcome(files.open(at('out/a'), 'replace'))).toBe(READ_ONLY);
      expect(await outcome(files.open(at('out/a'), 'atomicReplace'))).toBe(READ_ONLY);
      expect(readdirSync(at('out'))).toEqual(['a']);
      expect(readFileSync(at('out/a'), 'utf8')).toBe('old');
    });

    test('denies changes through links that lead outside', async () => {
      mkdirSync(at('out'));
      writeFileSync(at('out/a'), 'old');
      symlinkSync(at('out'), at('ws/link'));
      symlinkSync(at('out/a'), at('ws/file'));
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
      expect(await write(files, 'ws/link/new')).toBe(READ_ONLY);
      expect(await write(files, 'ws/file')).toBe(READ_ONLY);
      expect(await mkdir(files, 'ws/link/d', true)).toBe(READ_ONLY);
      expect(await read(files, 'ws/file')).toBe('old');
      expect(readdirSync(at('out'))).toEqual(['a']);
    });

    test.each([false, true])('protects names (existing: %s)', async (there) => {
      if (there) {
        mkdirSync(at('ws/.git'));
        writeFileSync(at('ws/.git/config'), 'old');
      }
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
      for (const name of ['.git', '.agents', '.codex', '.aws']) {
        expect(await write(files, `ws/${name}/x`)).toBe(READ_ONLY);
        expect(await mkdir(files, `ws/${name}/x`, true)).toBe(READ_ONLY);
        expect(await mkdir(files, `ws/${name}`, true)).toEqual(there && name === '.git' ? 'done' : PROTECTED);
        expect(await mkdir(files, `ws/${name}`, false)).toBe(EXISTS);
      }
      expect(await mkdir(files, 'ws/sub/.git', true)).toBe('done');
      expect(await write(files, 'ws/sub/.git/x')).toBe('done');
      expect(readdirSync(at('ws')).sort()).toEqual(there ? ['.git', 'sub'] : ['sub']);
      if (there) {
        expect(await remove(files, 'ws/.git/config')).toBe(READ_ONLY);
        expect(readFileSync(at('ws/.git/config'), 'utf8')).toBe('old');
      }
    });

    test('lists protected names', async () => {
      writeFileSync(at('ws/a'), '');
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
      expect(await names(files, 'ws')).toEqual(['.agents', '.aws', '.codex', '.git', 'a']);
      const { entries } = await files.walk(at('ws'), WALK, new AbortController().signal);
      expect(entries).toEqual([
        ...['.agents', '.aws', '.codex', '.git'].map((name) => ({
          uri: uriFromPath(at(`ws/${name}`)),
          kind: 'directory',
        })),
        { uri: uriFromPath(at('ws/a')), kind: 'file' },
      ]);
    });

    test('removing the workspace empties it and keeps it', async () => {
      mkdirSync(at('ws/d'));
      writeFileSync(at('ws/d/a'), '');
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
      expect(await remove(files, 'ws')).toBe(BUSY);
      expect(readdirSync(at('ws'))).toEqual([]);
    });

    test('an explicit write entry removes the protection', async () => {
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE, entry('ws/.git', 'write'));
      expect(await mkdir(files, 'ws/.git', true)).toBe('done');
      expect(await write(files, 'ws/.git/config')).toBe('done');
      expect(await write(files, 'ws/.codex/x')).toBe(READ_ONLY);
      expect(readdirSync(at('ws'))).toEqual(['.git']);
    });

    test('enforces read-only paths, also missing ones', async () => {
      mkdirSync(at('ws/lib'));
      writeFileSync(at('ws/lib/a'), 'old');
      const files = fixture.files(
        READ_ALL,
        WRITE_WORKSPACE,
        entry('ws/lib', 'read'),
        entry('ws/gone/x', 'read'),
      );
      expect(await write(files, 'ws/lib/a')).toBe(READ_ONLY);
      expect(await write(files, 'ws/lib/b')).toBe(READ_ONLY);
      expect(await read(files, 'ws/lib/a')).toBe('old');
      expect(await write(files, 'ws/gone/x')).toBe(READ_ONLY);
      expect(await mkdir(files, 'ws/gone/x/y', true)).toBe(READ_ONLY);
      expect(existsSync(at('ws/gone/x'))).toBe(false);
    });

    test('resolves a workspace that is a link', async () => {
      mkdirSync(at('real'));
      rmSync(at('ws'), { recursive: true });
      symlinkSync('real', at('ws'));
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
      expect(await write(files, 'ws/a')).toBe('done');
      expect(await write(files, 'real/b')).toBe('done');
      expect(await write(files, 'ws/.git/x')).toBe(READ_ONLY);
      expect(await write(files, 'real/.git/x')).toBe(READ_ONLY);
      expect(readdirSync(at('real')).sort()).toEqual(['a', 'b']);
    });

    test('allows device files and denies creating entries in /dev', async () => {
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
      expect(await write(files, '/dev/null')).toBe('done');
      for (const name of ['/dev/shm/x', '/dev/x', '/dev/.exec-server/x']) {
        expect(await write(files, name)).toEqual(name.includes('.exec') ? NO_ENTRY : NOT_ON_HOST);
        expect(await mkdir(files, name, true)).toEqual(name.includes('.exec') ? NO_ENTRY : NOT_ON_HOST);
        expect(await remove(files, name)).toEqual(NOT_ON_HOST);
        expect(existsSync(name)).toBe(false);
      }
      expect(await mkdir(files, '/dev/shm', true)).toEqual(NOT_ON_HOST);
    });
  });

  describe('with denied paths', () => {
    test('denies reading, listing and writing them', async () => {
      for (const name of ['ws/secret', 'out']) {
        mkdirSync(at(name));
        writeFileSync(at(`${name}/a`), 'secret');
      }
      writeFileSync(at('ws/key'), 'secret');
      symlinkSync('secret/a', at('ws/link'));
      const denied = [entry('ws/secret', 'deny'), entry('out', 'deny'), entry('ws/key', 'deny')];
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE, ...denied);
      for (const name of ['ws/secret/a', 'out/a', 'ws/key', 'ws/link']) {
        expect(await read(files, name)).toBe(DENIED);
        expect(await outcome(files.open(at(name), 'read'))).toBe(DENIED);
        expect(await write(files, name)).toMatch(/Permission denied|Read-only/);
      }
      expect(await outcome(files.readDirectory(at('ws/secret')))).toBe(DENIED);
      expect(await outcome(files.readDirectory(at('out')))).toBe(DENIED);
      expect(readFileSync(at('ws/secret/a'), 'utf8')).toBe('secret');
    });

    test('allows a path that is granted again inside of them', async () => {
      mkdirSync(at('ws/secret/open'), { recursive: true });
      writeFileSync(at('ws/secret/a'), 'secret');
      const files = fixture.files(
        READ_ALL,
        WRITE_WORKSPACE,
        entry('ws/secret', 'deny'),
        entry('ws/secret/open', 'write'),
      );
      expect(await write(files, 'ws/secret/open/x')).toBe('done');
      expect(await read(files, 'ws/secret/open/x')).toBe('new');
      expect(await read(files, 'ws/secret/a')).not.toBe('secret');
    });

    test('globs deny existing files and, after a new check, later ones', async () => {
      mkdirSync(at('ws/sub'));
      writeFileSync(at('ws/sub/.env'), 'secret');
      writeFileSync(at('ws/sub/env'), 'open');
      const files = fixture.files(
        READ_ALL,
        WRITE_WORKSPACE,
        denyGlob(`${at('ws')}/**/*.env`),
        denyGlob('**/.env'),
      );
      expect(await read(files, 'ws/sub/.env')).toBe(DENIED);
      expect(await write(files, 'ws/sub/.env')).toBe(READ_ONLY);
      expect(await read(files, 'ws/sub/env')).toBe('open');
      writeFileSync(at('ws/.env'), 'secret too');
      expect(await read(files, 'ws/.env')).toBe(DENIED);
      expect(await read(files, 'ws/sub/.env')).toBe(DENIED);
      rmSync(at('ws/sub/.env'));
      expect(await read(files, 'ws/sub/.env')).toBe(NO_ENTRY);
    });

    test('denies creating any number of missing ones', async () => {
      const missing = Array.from({ length: 1_000 }, (_, index) => `ws/${'long-name-'.repeat(15)}${index}`);
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE, ...missing.map((name) => entry(name, 'deny')));
      for (const name of [missing[0]!, missing[999]!]) expect(await write(files, name)).toBe(READ_ONLY);
      expect(await write(files, 'ws/a')).toBe('done');
      expect(readdirSync(at('ws'))).toEqual(['a']);
    });

    test('denies creating a missing one', async () => {
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE, entry('ws/secret', 'deny'));
      expect(await write(files, 'ws/secret')).toBe(READ_ONLY);
      expect(await write(files, 'ws/secret/x')).toBe(READ_ONLY);
      expect(readdirSync(at('ws'))).toEqual([]);
    });
  });

  describe('that hides most files', () => {
    test('shows only the named paths', async () => {
      mkdirSync(at('lib'));
      writeFileSync(at('lib/a'), 'text');
      writeFileSync(at('hidden'), 'text');
      symlinkSync(at('hidden'), at('ws/link'));
      const files = fixture.files(WRITE_WORKSPACE, entry('lib', 'read'));
      expect(await write(files, 'ws/a')).toBe('done');
      expect(await read(files, 'lib/a')).toBe('text');
      expect(await write(files, 'lib/a')).toBe(READ_ONLY);
      for (const name of ['hidden', 'ws/link', '/etc/passwd', process.execPath, '/usr', '/root']) {
        expect(await outcome(files.getMetadata(at(name), FOLLOW))).toBe(NO_ENTRY);
      }
      expect(await names(files, '.')).toEqual(['lib', 'ws']);
      expect(await names(files, '/')).toEqual(['dev', 'proc', at('.').split('/')[1]]);
    });

    test('refuses changes to hidden paths, whether or not they exist', async () => {
      mkdirSync(at('hidden'));
      writeFileSync(at('hidden/file'), 'text');
      symlinkSync(at('hidden/later'), at('ws/link'));
      const files = fixture.files(WRITE_WORKSPACE);
      for (const name of ['/nowhere/a/b', 'a/b', 'hidden', 'hidden/file', 'ws/link']) {
        expect(await mkdir(files, name, true)).toEqual(name === 'ws/link' ? EXISTS : NOT_ON_HOST);
      }
      expect(await write(files, '/file')).toEqual(NOT_ON_HOST);
      expect(await write(files, 'hidden/file')).toBe(NO_ENTRY);
      expect(await write(files, 'ws/link')).toBe(NO_ENTRY);
      expect(await remove(files, 'hidden')).toEqual(NOT_ON_HOST);
      expect(await remove(files, 'hidden', false)).toBe(NO_ENTRY);
      expect(await remove(files, '/nowhere')).toEqual(NOT_ON_HOST);
      for (const name of ['/nowhere', '/file']) expect(existsSync(name)).toBe(false);
      expect(readdirSync(at('.')).sort()).toEqual(['hidden', 'ws']);
      expect(readFileSync(at('hidden/file'), 'utf8')).toBe('text');
    });

    test('refuses to copy a directory that is visible in part only', async () => {
      mkdirSync(at('lib/shown'), { recursive: true });
      writeFileSync(at('lib/file'), 'text');
      const hiding = fixture.files(WRITE_WORKSPACE, entry('lib/shown', 'read'));
      const denying = fixture.files(READ_ALL, WRITE_WORKSPACE, entry('lib/shown', 'deny'));
      for (const files of [hiding, denying]) {
        const copied = outcome(files.copy(at('lib'), at('ws/copy'), { recursive: true }));
        expect(await copied).toMatch(/^refused: Permission denied.*the sandbox hides a part of .*lib;/);
        expect(readdirSync(at('ws'))).toEqual([]);
      }
    });

    test('hides the runtime of the helper', async () => {
      const files = fixture.files(WRITE_WORKSPACE);
      expect(await names(files, '/dev')).not.toContain('.exec-server');
      expect(await outcome(files.readDirectory(at('/dev/.exec-server')))).toBe(NO_ENTRY);
      const { entries } = await files.walk(at('/dev'), WALK, new AbortController().signal);
      expect(entries.filter(({ uri }) => uri.includes('.exec-server'))).toEqual([]);
    });

    test('can show the platform directories', async () => {
      const minimal = { path: { type: 'special', value: { kind: 'minimal' } }, access: 'read' } as const;
      const files = fixture.files(WRITE_WORKSPACE, minimal);
      expect((await files.getMetadata(at('/usr/bin'), FOLLOW)).isDirectory).toBe(true);
      expect((await files.getMetadata(at('/bin/sh'), FOLLOW)).isFile).toBe(true);
      expect(await outcome(files.getMetadata(at('/root'), FOLLOW))).toBe(NO_ENTRY);
    });

    test('can deny the directory of Node itself', async () => {
      const files = fixture.files(READ_ALL, WRITE_WORKSPACE, entry('/usr', 'deny'));
      expect(await write(files, 'ws/a')).toBe('done');
      expect(await outcome(files.readDirectory(at('/usr')))).toBe(DENIED);
    });
  });

  test('enforces a read-only path on a writable disk', async () => {
    mkdirSync(at('out'));
    const writeAll = { path: { type: 'special', value: { kind: 'root' } }, access: 'write' } as const;
    const files = fixture.files(writeAll, entry('ws', 'read'));
    expect(await write(files, 'out/a')).toBe('done');
    expect(await write(files, 'ws/a')).toBe(READ_ONLY);
    expect(await mkdir(files, '/.codex', true)).toEqual(PROTECTED);
    expect(existsSync('/.codex')).toBe(false);
  });

  test('enforces file modes and owners', async () => {
    writeFileSync(at('ws/a'), 'old');
    chmodSync(at('ws/a'), 0o000);
    const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
    // Without capabilities even root needs the permission bits.
    expect(await read(files, 'ws/a')).toBe(DENIED);
    expect(await write(files, 'ws/a')).toBe(DENIED);
  });

  test('denies access to the helper through /proc', async () => {
    const pool = fixture.pool();
    const { fileSystem: files, search } = pool.files(
      fixture.policy(READ_ALL, WRITE_WORKSPACE, entry('out', 'deny')),
    );
    const forged = Buffer.alloc(1024, 0xff);
    const writeOwn = (name: number) =>
      outcome(files.writeFile(at(`/proc/self/fd/${name}`), forged, FOLLOW, waitingForever()));
    expect(await write(files, 'ws/a')).toBe('done');
    const { pids } = pool;
    for (const hasThreads of [false, true]) {
      if (hasThreads) await search({ path: at('ws'), pattern: 'x' }, new AbortController().signal);
      const said = [];
      for (let name = 0; name < 40; name++) said.push(await writeOwn(name));
      expect(said.slice(0, 3)).toEqual([DENIED, DENIED, DENIED]);
      // One descriptor is /dev/null.
      expect(said.filter((outcome) => outcome === 'done').length).toBeLessThan(2);
    }
    expect(pool.pids).toEqual(pids);
    expect(await outcome(files.open(at('/proc/self/mem'), 'replace'))).toEqual(NOT_ON_HOST);
    expect(await write(files, '/proc/self/oom_score_adj')).toEqual(NOT_ON_HOST);
    expect(await write(files, '/proc/sys/kernel/core_pattern')).toMatch(READ_ONLY);
    expect(await read(files, '/proc/self/environ')).not.toContain('NODE');
    expect(await write(files, 'ws/a')).toBe('done');
  });

  test('searches only readable files', async () => {
    mkdirSync(at('ws/secret'));
    writeFileSync(at('ws/a'), 'a needle');
    writeFileSync(at('ws/secret/b'), 'a needle');
    const { search } = fixture
      .pool()
      .files(fixture.policy(READ_ALL, WRITE_WORKSPACE, entry('ws/secret', 'deny')));
    const { matches, engine } = await search(
      { path: at('ws'), pattern: 'nee.le' },
      new AbortController().signal,
    );
    expect(engine).toBe('builtin');
    expect(matches.map(({ path }) => path)).toEqual([at('ws/a')]);
    await expect(
      search({ path: at('ws/secret'), pattern: 'x' }, new AbortController().signal),
    ).rejects.toMatchObject({ errno: 13 });
  });

  describe('through a long-lived helper', () => {
    let base = '';
    let turn = 0;
    let pool: SandboxedFiles | null = null;
    beforeAll(() => {
      base = realpathSync(mkdtempSync(join(tmpdir(), 'same-answers-')));
      pool = fixture.lastingPool();
    });
    beforeEach(() => mkdirSync(join(base, String(++turn))));
    afterAll(async () => {
      await pool?.close();
      rmSync(base, { recursive: true });
    });
    const place = { at: (name: string): NativePath => nativePathOfText(join(base, String(turn), name)) };
    sameAnswers(place, async () => pool!.files(fixture.policy(READ_ALL, entry(base, 'write'))).fileSystem);
  });
});
