import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { ControlGroups } from '../../../../src/process/resources/control-groups.ts';
import {
  NO_RESOURCE_LIMITS as NOTHING,
  SessionLimits,
} from '../../../../src/process/resources/resource-limits.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { ExitStatus } from '../../../../src/process/spawn/spawner.ts';
import { INPUT, shell } from '../../../support/children.ts';

let home: string;
let groups: ControlGroups;

/** Fakes the cgroup file system: a directory in which written files appear. */
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'session-groups-'));
  writeFileSync(join(home, 'cgroup.subtree_control'), '');
  writeFileSync(join(home, 'cgroup.procs'), `${process.pid}\n`);
  groups = new ControlGroups(home);
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const own = () => join(home, `exec-server-${process.pid}`);
const text = (...path: string[]) => readFileSync(join(...path), 'utf8');

test('creates a group for a session and puts the groups of its programs inside', () => {
  const session = new SessionLimits({ memoryBytes: 8192, pids: null, cpuPercent: 50 });
  expect(existsSync(`${own()}-s1`)).toBe(false);
  groups.create({ ...NOTHING, pids: 3 }, session);
  expect(text(home, 'cgroup.subtree_control')).toBe('+pids');
  expect(text(`${own()}-s1`, 'memory.max')).toBe('8192');
  expect(text(`${own()}-s1`, 'memory.swap.max')).toBe('0');
  expect(text(`${own()}-s1`, 'cpu.max')).toBe('50000 100000');
  expect(text(`${own()}-s1`, 'cgroup.subtree_control')).toBe('+pids +memory');
  expect(text(`${own()}-s1`, '1', 'pids.max')).toBe('3');

  groups.create({ ...NOTHING, memoryBytes: 4096 }, session);
  expect(text(`${own()}-s1`, '2', 'memory.max')).toBe('4096');
  // Another session and a program without a session have separate groups.
  groups.create(NOTHING, new SessionLimits({ ...NOTHING, pids: null, memoryBytes: 1 }));
  groups.create({ ...NOTHING, pids: 1 });
  const made = readdirSync(home).filter((name) => name.startsWith('exec-server-'));
  expect(made.map((name) => name.replace(/^exec-server-\d+/, '')).sort()).toEqual(['', '-3', '-s1', '-s2']);
});

test('kills one whole program and keeps the others when the memory of a session runs out', () => {
  const session = new SessionLimits({ ...NOTHING, memoryBytes: 8192 });
  groups.create(NOTHING, session);
  expect(text(`${own()}-s1`, '1', 'memory.oom.group')).toBe('1');
  expect(existsSync(join(`${own()}-s1`, 'memory.oom.group'))).toBe(false);
});

test('rejects another program when the session has its maximum of processes', () => {
  const session = new SessionLimits({ ...NOTHING, pids: 2 });
  const current = join(`${own()}-s1`, 'pids.current');
  expect(() => groups.create(NOTHING, session)).toThrow(/pids.current/);
  writeFileSync(current, '1\n');
  groups.create(NOTHING, session);
  writeFileSync(current, '2\n');
  const create = () => groups.create(NOTHING, session);
  expect(create).toThrow(expect.objectContaining({ code: 'tooManyProcesses' }));
  expect(create).toThrow(/2 processes and threads.*maxSessionPids/);
});

test('has no group after the session has ended', () => {
  const session = new SessionLimits({ ...NOTHING, memoryBytes: 1 });
  session.close();
  expect(() => groups.create(NOTHING, session)).toThrow(expect.objectContaining({ code: 'shuttingDown' }));
  expect(readdirSync(home).filter((name) => name.includes('-s'))).toEqual([]);
});

test('retries the removal of leftover groups, a few with each start', async () => {
  const kept = Array.from({ length: 20 }, () => groups.create(NOTHING));
  for (const group of kept) {
    mkdirSync(join(group.path, 'busy'));
    group.remove(1);
    rmSync(join(group.path, 'busy'), { recursive: true });
  }
  const left = () => kept.filter(({ path }) => existsSync(path)).length;
  expect(left()).toBe(20);
  groups.create(NOTHING);
  expect(left()).toBe(4);
  groups.create(NOTHING);
  expect(left()).toBe(0);
});

test("reports oom for a program that the session's memory limit killed", async () => {
  const spawner = new NativeSpawner(loadLibc(), () => groups);
  try {
    const sessionLimits = new SessionLimits({ ...NOTHING, memoryBytes: 2 ** 30 });
    const child = await spawner.spawn({ ...shell('read go', INPUT), sessionLimits });
    const group = join(`${own()}-s1`, '1');
    expect(text(group, 'cgroup.procs')).toBe(String(child.pid));
    // The kernel counts a kill in the group of the process, whichever limit caused it.
    writeFileSync(join(group, 'memory.events'), 'low 0\noom 0\noom_kill 1\n');
    const status = new Promise<ExitStatus>((resolve) => child.onExit(resolve));
    child.signalGroup(9);
    expect(await status).toEqual({ code: null, signal: 9, outOfMemory: true });
    child.release();
    rmSync(join(home), { recursive: true });
  } finally {
    await spawner.close();
  }
});
