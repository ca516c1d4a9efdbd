import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readElf } from '../../../../src/sandbox/files/elf.ts';
import { nodeRuntime } from '../../../../src/sandbox/files/node-runtime.ts';

const PROGRAM = { main: '/package/helper.cjs', searchThread: '/package/thread.cjs' };

/** The libraries that the loader finds for Node, by name. */
function librariesOfNode(): Map<string, string> {
  const listed = execFileSync('ldd', [process.execPath], { encoding: 'utf8' });
  return new Map(Array.from(listed.matchAll(/^\s*(\S+) => (\/\S+)/gm), ([, name, path]) => [name!, path!]));
}

describe('the Node runtime of a helper', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'runtime-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test('consists of Node, its loader and every library that the loader needs', async () => {
    const { mounts, command } = await nodeRuntime(PROGRAM, process.execPath);
    const paths = mounts.map(({ path }) => path as string);
    expect(command[0]).toBe('/dev/.exec-server/loader');
    expect(paths).toEqual(expect.arrayContaining([command[0], command[3], command[4]]));
    for (const name of librariesOfNode().keys()) expect(paths).toContain(`/dev/.exec-server/lib/${name}`);
    expect(new Set(paths).size).toBe(paths.length);
  });

  test('consists of a static Node alone', async () => {
    const library = librariesOfNode().get('libm.so.6')!;
    const { mounts, command } = await nodeRuntime(PROGRAM, library);
    expect(command).toEqual(['/dev/.exec-server/node', '/dev/.exec-server/dist/bin/file-helper.cjs']);
    expect(mounts).toHaveLength(3);
  });

  test('reads the loader and the soname from an ELF file', async () => {
    expect(await readElf(process.execPath)).toMatchObject({ interpreter: expect.stringMatching(/^\/lib/) });
    for (const [name, path] of librariesOfNode()) expect((await readElf(path)).soname).toBe(name);
  });

  test.each<[string, Buffer]>([
    ['nothing', Buffer.alloc(0)],
    ['a script', Buffer.from('#!/bin/sh\n'.repeat(20))],
    ['the beginning of a program', Buffer.from(`\x7fELF\x02\x01${'\xff'.repeat(58)}`, 'latin1')],
  ])('rejects %s', async (_name, bytes) => {
    writeFileSync(join(folder, 'file'), bytes);
    await expect(readElf(join(folder, 'file'))).rejects.toThrow(/ELF/);
  });
});
