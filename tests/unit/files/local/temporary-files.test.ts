import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  partName,
  removeStaleTemporaries,
  sweepTemporaries,
  temporaryName,
} from '../../../../src/files/local/temporary-files.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { processState } from '../../../support/machine.ts';
import { waitFor } from '../../../support/wait-for.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'temporary-files-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const names = () => readdirSync(folder);
const sweep = () => removeStaleTemporaries(nativePathOfText(folder));

/** A temporary file whose name names another creator. */
async function leave(change: { origin?: string; pid?: number; startTime?: string }): Promise<string> {
  const parts = (await temporaryName('f')).split('-');
  const [origin, pid, startTime] = parts.slice(-4);
  parts.splice(-4, 3, change.origin ?? origin!, `${change.pid ?? pid}`, change.startTime ?? startTime!);
  const name = parts.join('-');
  writeFileSync(join(folder, name), 'half');
  return name;
}

function age(name: string, minutes: number): void {
  const time = Date.now() / 1000 - minutes * 60;
  utimesSync(join(folder, name), time, time);
}

describe('temporary names', () => {
  test('start with a dot and the name, and are unique', async () => {
    const [first, second] = [await temporaryName('a.txt'), await temporaryName('a.txt')];
    expect(first).toMatch(/^\.a\.txt\.exec-server-[0-9a-f]{8}-\d+-[1-9]\d*-[0-9a-f]{8}\.tmp$/);
    expect(first).not.toBe(second);
  });

  test('are short, and cut between UTF-8 characters', async () => {
    const euros = Buffer.from('€'.repeat(80)).toString('latin1');
    const name = await temporaryName(euros);
    expect(name.length).toBeLessThanOrEqual(143);
    expect(name.startsWith(`.${euros.slice(0, 63)}.exec-server-`)).toBe(true);
    expect(await temporaryName('\xbf'.repeat(80))).toMatch(/^\.\.exec-server-/);
  });
});

test('parts of resumable replacements stay for a week', async () => {
  const key = '0123456789abcdef0123456789abcdef';
  const [part, other] = [partName('f', key), `f.exec-server-${key}.part`];
  for (const name of [part, other]) writeFileSync(join(folder, name), 'half');
  onTestFinished(() => void vi.useRealTimers());
  const now = Date.now();
  const sweepAfter = async (days: number) => {
    vi.useFakeTimers({ toFake: ['Date'], now: now + days * 24 * 60 * 60 * 1000 });
    await sweep();
    return names().sort();
  };
  // A client that keeps times has set one before it renames its file.
  age(part, 8 * 24 * 60);
  expect(await sweepAfter(6)).toEqual([part, other].sort());
  expect(await sweepAfter(8)).toEqual([other]);
});

describe('stale temporary files', () => {
  test('of living processes stay, however old', async () => {
    const ours = await leave({});
    age(ours, 100_000);
    await sweep();
    expect(names()).toEqual([ours]);
  });

  test('of dead processes are removed, also when the pid has been reused', async () => {
    await leave({ pid: spawnSync('true').pid });
    await leave({ startTime: '1' });
    await leave({ pid: process.ppid, startTime: '1' });
    await sweep();
    expect(names()).toEqual([]);
  });

  test('of a zombie are removed', async () => {
    // The inner shell prints its pid and start time and exits. The outer one has become a program that never reaps it.
    const inner = 'read -r line < /proc/self/stat; echo "$line"';
    const parent = spawn('sh', ['-c', `sh -c '${inner}' & exec sleep 60`], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    try {
      const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
      const pid = Number.parseInt(line, 10);
      await waitFor('the zombie', () => processState(pid) === 'Z');
      await leave({ pid, startTime: line.slice(line.lastIndexOf(')') + 2).split(' ')[19]! });
      await sweep();
      expect(names()).toEqual([]);
    } finally {
      parent.kill('SIGKILL');
    }
  });

  test('of another machine or boot are removed after an hour without a write', async () => {
    const [fresh, old] = [await leave({ origin: '00000000' }), await leave({ origin: '00000001' })];
    age(fresh, 55);
    age(old, 65);
    await sweep();
    expect(names()).toEqual([fresh]);
  });

  test('are distinguished from all other files', async () => {
    const dead = await leave({ pid: spawnSync('true').pid });
    const others = [dead.slice(1), `${dead}x`, dead.replace('exec-server', 'server'), '.f.tmp'];
    for (const name of others) writeFileSync(join(folder, name), '');
    mkdirSync(join(folder, dead.replace('.f', '.directory')));
    await sweep();
    expect(names().sort()).toEqual([...others, dead.replace('.f', '.directory')].sort());
  });

  test('that are links are removed without their targets', async () => {
    writeFileSync(join(folder, 'kept'), '');
    const dead = await leave({ pid: spawnSync('true').pid });
    rmSync(join(folder, dead));
    symlinkSync('kept', join(folder, dead));
    await sweep();
    expect(names()).toEqual(['kept']);
  });

  test('are searched at an interval, and an unreadable directory is not an error', async () => {
    const pid = spawnSync('true').pid;
    await leave({ pid });
    await sweepTemporaries(nativePathOfText(folder));
    expect(names()).toEqual([]);
    const later = await leave({ pid });
    await sweepTemporaries(nativePathOfText(folder));
    expect(names()).toEqual([later]);
    await removeStaleTemporaries(nativePathOfText('/nowhere'));
  });
});
