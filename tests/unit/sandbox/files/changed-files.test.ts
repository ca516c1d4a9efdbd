import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { PLACEHOLDER_MODES } from '../../../../src/sandbox/mounts/mount-plan.ts';
import { NO_ENTRY } from '../../files/local/scratch.ts';
import {
  DENIED,
  HelperFixture,
  operationsAt,
  READ_ALL,
  READ_ONLY,
  WRITE_WORKSPACE,
} from './helper-fixture.ts';

describe('files that other processes change while a policy is in use', () => {
  const fixture = new HelperFixture();
  const { at, entry } = fixture;
  const { write, read, remove } = operationsAt(at);

  test('finds a workspace that was created again', async () => {
    const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
    expect(await write(files, 'ws/a')).toBe('done');
    renameSync(at('ws'), at('old'));
    mkdirSync(at('ws'));
    expect(await write(files, 'ws/b')).toBe('done');
    expect(readdirSync(at('ws'))).toEqual(['b']);
    expect(readdirSync(at('old'))).toEqual(['a']);
    rmSync(at('ws'), { recursive: true });
    expect(await write(files, 'ws/c')).toBe(NO_ENTRY);
  });

  test.runIf(process.getuid?.() === 0)('finds what was mounted and unmounted since', async () => {
    mkdirSync(at('ws/sub'));
    const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
    expect(await write(files, 'ws/sub/a')).toBe('done');
    execFileSync('mount', ['-t', 'tmpfs', 'changed-files', at('ws/sub')]);
    try {
      expect(await write(files, 'ws/sub/b')).toBe('done');
      expect(readdirSync(at('ws/sub'))).toEqual(['b']);
    } finally {
      execFileSync('umount', ['--lazy', at('ws/sub')]);
    }
    expect(await write(files, 'ws/sub/c')).toBe('done');
    expect(readdirSync(at('ws/sub')).sort()).toEqual(['a', 'c']);
  });

  test('protects a repository that was created later', async () => {
    const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
    expect(await write(files, 'ws/a')).toBe('done');
    mkdirSync(at('ws/.git'));
    writeFileSync(at('ws/.git/config'), 'old');
    expect(await write(files, 'ws/.git/config')).toBe(READ_ONLY);
    expect(await remove(files, 'ws/.git')).toMatch(/Read-only|busy/);
    expect(await read(files, 'ws/.git/config')).toBe('old');
  });

  test('denies a file that was removed and created again, even with the same inode number', async () => {
    const make = () => {
      mkdirSync(at('ws/.git'), { recursive: true });
      mkdirSync(at('ws/secret'));
      writeFileSync(at('ws/secret/a'), 'secret');
      writeFileSync(at('ws/key'), 'secret');
    };
    make();
    const files = fixture.files(
      READ_ALL,
      WRITE_WORKSPACE,
      entry('ws/secret', 'deny'),
      entry('ws/key', 'deny'),
    );
    expect(await read(files, 'ws/key')).toBe(DENIED);
    for (const name of ['ws/key', 'ws/secret', 'ws/.git']) rmSync(at(name), { recursive: true });
    make();
    expect(await read(files, 'ws/key')).toBe(DENIED);
    expect(await read(files, 'ws/secret/a')).toBe(DENIED);
    expect(await write(files, 'ws/.git/config')).toBe(READ_ONLY);
  });

  test('changing the mode does not allow a denied path', async () => {
    mkdirSync(at('ws/sub'));
    writeFileSync(at('ws/sub/key'), 'secret');
    writeFileSync(at('ws/key'), 'secret');
    const files = fixture.files(
      READ_ALL,
      WRITE_WORKSPACE,
      entry('ws/sub/key', 'deny'),
      entry('ws/key', 'deny'),
    );
    chmodSync(at('ws/sub'), PLACEHOLDER_MODES.directory);
    chmodSync(at('ws/key'), PLACEHOLDER_MODES.file);
    expect(await read(files, 'ws/sub/key')).toBe(DENIED);
    expect(await read(files, 'ws/key')).toBe(DENIED);
  });

  test('keeps open files open', async () => {
    writeFileSync(at('ws/a'), 'content');
    const files = fixture.files(READ_ALL, WRITE_WORKSPACE);
    const file = await files.open(at('ws/a'), 'read');
    renameSync(at('ws'), at('old'));
    mkdirSync(at('ws'));
    expect(await write(files, 'ws/b')).toBe('done');
    expect(String(await file.read(3, 100))).toBe('tent');
    await file.close();
  });
});
