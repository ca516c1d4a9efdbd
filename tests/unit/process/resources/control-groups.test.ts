import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ProcessError } from '../../../../src/process/errors.ts';
import { ControlGroup } from '../../../../src/process/resources/control-group.ts';
import { ControlGroups, findControlGroups } from '../../../../src/process/resources/control-groups.ts';

let root: string;
let home: string;
let proc: string;

/** Fakes the cgroup file system: a process in the group /app of a hierarchy mounted at `root`/sys. */
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'cgroup-test-'));
  home = join(root, 'sys', 'app');
  proc = join(root, 'proc');
  mkdirSync(home, { recursive: true });
  mkdirSync(proc);
  writeFileSync(join(proc, 'cgroup'), '4:memory:/elsewhere\n0::/app\n');
  writeFileSync(
    join(proc, 'mountinfo'),
    `24 1 0:1 / /proc rw - proc proc rw\n31 1 0:26 / ${join(root, 'sys')} rw shared:4 - cgroup2 cgroup2 rw\n`,
  );
  writeFileSync(join(home, 'cgroup.controllers'), 'cpuset cpu io memory pids\n');
  writeFileSync(join(home, 'cgroup.subtree_control'), '');
  writeFileSync(join(home, 'cgroup.procs'), `${process.pid}\n1\n`);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const NOTHING = { memoryBytes: null, pids: null, cpuPercent: null };
const own = () => join(home, `exec-server-${process.pid}`);
const text = (...path: string[]) => readFileSync(join(...path), 'utf8');

test('finds the group in which this process was started', () => {
  expect(findControlGroups(proc)).toBeInstanceOf(ControlGroups);
});

test.each([
  ['without version 2', () => writeFileSync(join(proc, 'cgroup'), '4:memory:/x\n'), /no cgroup v2/],
  ['where it is not mounted', () => writeFileSync(join(proc, 'mountinfo'), ''), /no cgroup v2/],
  [
    'without controllers',
    () => writeFileSync(join(home, 'cgroup.controllers'), 'cpu hugetlb\n'),
    /no controller for memory, pids/,
  ],
  ['where it may not be changed', () => rmSync(join(home, 'cgroup.subtree_control')), /subtree_control/],
  ['where no process may be moved', () => rmSync(join(home, 'cgroup.procs')), /cgroup.procs/],
  ['without /proc', () => rmSync(proc, { recursive: true }), /ENOENT/],
])('%s reports why control groups are unavailable', (_name, arrange, expected) => {
  arrange();
  expect(findControlGroups(proc)).toEqual({ unavailableReason: expect.stringMatching(expected) });
});

test('moves the server, delegates controllers and then limits the program', () => {
  new ControlGroups(home).create({ memoryBytes: 4096, pids: 7, cpuPercent: 150 });
  expect(text(own(), 'cgroup.procs')).toBe(String(process.pid));
  expect(text(home, 'cgroup.subtree_control')).toBe('+memory +pids +cpu');
  const group = `${own()}-1`;
  expect(text(group, 'memory.max')).toBe('4096');
  expect(text(group, 'memory.swap.max')).toBe('0');
  expect(text(group, 'memory.oom.group')).toBe('1');
  expect(text(group, 'pids.max')).toBe('7');
  expect(text(group, 'cpu.max')).toBe('150000 100000');
});

test('keeps delegated controllers and gives each program its own group', () => {
  writeFileSync(join(home, 'cgroup.subtree_control'), 'memory pids\n');
  const groups = new ControlGroups(home);
  groups.create({ ...NOTHING, pids: 1 });
  groups.create({ ...NOTHING, pids: 2 });
  expect(existsSync(own())).toBe(false);
  expect(text(`${own()}-1`, 'pids.max')).toBe('1');
  expect(text(`${own()}-2`, 'pids.max')).toBe('2');
  expect(existsSync(join(`${own()}-2`, 'memory.max'))).toBe(false);
});

test('rejects the limit and names the fix when the system does not allow it', () => {
  rmSync(home, { recursive: true });
  const create = () => new ControlGroups(home).create({ ...NOTHING, pids: 1 });
  expect(create).toThrow(ProcessError);
  expect(create).toThrow(/Delegate=yes.*ENOENT/);
});

test('removes groups of dead servers with the first start, including one with the same pid', () => {
  const dead = join(home, 'exec-server-2147480000');
  const living = join(home, `exec-server-${process.ppid}`);
  const left = [dead, `${dead}-1`, `${dead}-s2`, join(`${dead}-s2`, '7'), own(), `${own()}-1`, `${own()}-s1`];
  const kept = [
    living,
    `${living}-3`,
    join(home, 'exec-server-x'),
    `${dead}-s9`,
    join(`${dead}-s9`, 'other'),
  ];
  for (const path of [...left, ...kept]) mkdirSync(path);
  const groups = new ControlGroups(home);
  expect(left.every(existsSync)).toBe(true);
  groups.create(NOTHING);
  // The first of its own number is in use again.
  expect(left.filter(existsSync)).toEqual([`${own()}-1`]);
  expect(kept.filter(existsSync)).toEqual(kept);
});

test('does not reuse the name of an existing group', () => {
  mkdirSync(join(`${own()}-1`, 'busy'), { recursive: true });
  new ControlGroups(home).create({ ...NOTHING, pids: 9 });
  expect(text(`${own()}-2`, 'pids.max')).toBe('9');
});

test('adds members, detects an OOM kill and removes an empty group', () => {
  const path = join(root, 'group');
  mkdirSync(path);
  const group = new ControlGroup(path);
  expect(group.add(42)).toBe(true);
  expect(text(path, 'cgroup.procs')).toBe('42');
  expect(group.add(42)).toBe(false);
  expect(group.outOfMemory()).toBe(false);
  writeFileSync(join(path, 'memory.events'), 'low 0\noom 3\noom_kill 0\noom_group_kill 0\n');
  expect(group.outOfMemory()).toBe(false);
  writeFileSync(join(path, 'memory.events'), 'low 0\noom 3\noom_kill 2\noom_group_kill 1\n');
  expect(group.outOfMemory()).toBe(true);
  rmSync(join(path, 'memory.events'));
  rmSync(join(path, 'cgroup.procs'));
  group.remove();
  expect(existsSync(path)).toBe(false);
  // A caller must learn that the limit does not apply.
  expect(() => group.add(42)).toThrow(/ENOENT/);
});

test('does not remove a group again after its name was reused', () => {
  const path = join(root, 'group');
  mkdirSync(path);
  const group = new ControlGroup(path);
  expect(group.tryRemove()).toBe(true);
  mkdirSync(path);
  expect(group.tryRemove()).toBe(true);
  expect(existsSync(path)).toBe(true);
});

test('starts a program although a group cannot be read', () => {
  // Another server may remove groups at the same time; and a file has no entries.
  writeFileSync(join(home, 'exec-server-2147480000-s1'), '');
  new ControlGroups(home).create({ ...NOTHING, pids: 1 });
  expect(text(`${own()}-1`, 'pids.max')).toBe('1');
});
