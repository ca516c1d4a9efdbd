import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  ownedFolderName,
  removeOrphans,
} from '../../../../../src/network/proxy/interception/owned-folders.ts';
import { processState } from '../../../../support/machine.ts';
import { waitFor } from '../../../../support/wait-for.ts';

let parent = '';

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'owned-'));
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

/** The folder name of another process. */
function nameFor(pid: number, start: string, place = ownedFolderName().split('-')[2]): string {
  return `exec-server-${place}-${pid}-${start}-0123456789abcdef`;
}

function startOf(pid: number): string {
  return (
    readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ')[19] ?? ''
  );
}

function add(name: string): string {
  mkdirSync(join(parent, name));
  writeFileSync(join(parent, name, 'ca-bundle.pem'), 'x');
  return name;
}

test('names its owner and is unique', () => {
  expect(ownedFolderName()).toMatch(
    new RegExp(`^exec-server-[0-9a-f]{16}-${process.pid}-${startOf(process.pid)}-[0-9a-f]{16}$`),
  );
  expect(ownedFolderName()).not.toBe(ownedFolderName());
});

test('removes folders of dead processes, also when their pid was reused', async () => {
  const child = spawn('/bin/true');
  const { pid = 0 } = child;
  const start = startOf(pid);
  await once(child, 'exit');
  add(nameFor(pid, start));
  add(nameFor(process.pid, '1'));
  await removeOrphans(parent);
  expect(readdirSync(parent)).toEqual([]);
});

test('treats a zombie as dead', async () => {
  // A shell that executes a program which does not reap its child.
  const child = spawn('/bin/sh', ['-c', 'sleep 60 & echo $!; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  try {
    const pid = Number(String((await once(child.stdout, 'data'))[0]));
    await waitFor('the shell to be gone', () => commandOf(child.pid ?? 0) === 'sleep');
    add(nameFor(pid, startOf(pid)));
    await removeOrphans(parent);
    expect(readdirSync(parent)).toHaveLength(1);
    process.kill(pid, 'SIGKILL');
    await waitFor('the child to end', () => processState(pid) === 'Z');
    await removeOrphans(parent);
    expect(readdirSync(parent)).toEqual([]);
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, 'latin1').trim();
}

test('keeps folders of living and unknown processes, and other entries', async () => {
  const kept = [
    add(ownedFolderName()),
    add(nameFor(process.ppid, startOf(process.ppid))),
    add(nameFor(process.pid, '1', 'f'.repeat(16))),
    add('exec-server-0123456789abcdef'),
    add('theirs'),
  ];
  const elsewhere = mkdtempSync(join(tmpdir(), 'elsewhere-'));
  writeFileSync(join(elsewhere, 'ca-bundle.pem'), 'x');
  const [link, file] = [nameFor(process.pid, '2'), nameFor(process.pid, '3')];
  symlinkSync(elsewhere, join(parent, link));
  writeFileSync(join(parent, file), '');
  await removeOrphans(parent);
  expect(readdirSync(parent).sort()).toEqual([...kept, link, file].sort());
  expect(readdirSync(elsewhere)).toEqual(['ca-bundle.pem']);
  rmSync(elsewhere, { recursive: true });
});

test('ignores a missing folder', async () => {
  await expect(removeOrphans(join(parent, 'missing'))).resolves.toBeUndefined();
});
