import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { openAtomicReplacement } from '../../../../src/files/local/atomic-replace.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { Scratch } from './scratch.ts';

const scratch = new Scratch();
const KEY = 'a'.repeat(32);
const open = () =>
  openAtomicReplacement(nativePathOfText(scratch.at('file')), {
    attributes: { mode: 0o600 },
    resumeKey: KEY,
    durable: false,
  });
const names = () => readdirSync(scratch.at('.'));

/** Leaves a part with three bytes. Returns its path. */
async function leavePart(): Promise<string> {
  const file = await open();
  await file.write(0, Buffer.from('abc'));
  await file.discard();
  return scratch.at(names().find((name) => name.endsWith('.part'))!);
}

describe.skipIf(spawnSync('flock', ['--version']).status !== 0)('a part that another process uses', () => {
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.stdin!.end();
  });

  /** Starts a process that has locked the file until its stdin ends. */
  async function lockedBy(path: string): Promise<ChildProcess> {
    const child = spawn('flock', ['-x', path, 'sh', '-c', 'echo locked; cat'], { stdio: 'pipe' });
    children.push(child);
    await once(child.stdout, 'data');
    return child;
  }

  test('is not written: the replacement gets a temporary file', async () => {
    const path = await leavePart();
    await lockedBy(path);
    const file = await open();
    expect(file.part).toBe(undefined);
    await file.write(0, Buffer.from('other'));
    await file.close();
    expect([readFileSync(path, 'utf8'), readFileSync(scratch.at('file'), 'utf8')]).toEqual(['abc', 'other']);
  });

  test('is continued when that process ends meanwhile', async () => {
    const child = await lockedBy(await leavePart());
    const opening = open();
    child.stdin!.end();
    const file = await opening;
    expect(file.part?.size).toBe(3);
    await file.write(3, Buffer.from('def'));
    await file.close();
    expect(readFileSync(scratch.at('file'), 'utf8')).toBe('abcdef');
    expect(names()).toEqual(['file']);
  });

  test('is locked until the replacement has ended', async () => {
    const isFree = (path: string) => spawnSync('flock', ['-xn', path, 'true']).status === 0;
    const path = await leavePart();
    expect(isFree(path)).toBe(true);
    const file = await open();
    expect(isFree(path)).toBe(false);
    await file.discard();
    expect(isFree(path)).toBe(true);
    const last = await open();
    await last.close();
    expect(isFree(scratch.at('file'))).toBe(true);
  });
});
