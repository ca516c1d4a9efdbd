import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { StreamSink } from '../../../../src/process/spawn/stream-io.ts';
import { Supervisor } from '../../../../src/process/spawn/supervisor.ts';
import { RemovalList } from '../../../../src/process/tree/removal-list.ts';
import { type StartWatchdog, Watchdog } from '../../../../src/process/tree/watchdog.ts';

const libc = loadLibc();
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'removal-'));
});

const lists: RemovalList[] = [];
afterEach(() => {
  for (const list of lists.splice(0)) list.close();
  rmSync(folder, { recursive: true });
});

/** A watchdog, its list of removals, and a function that simulates the server's death. */
function newWatchdog() {
  const started: ReturnType<typeof spawn>[] = [];
  const removals = new RemovalList(() => libc.memoryFile(Buffer.alloc(0)));
  lists.push(removals);
  const start: StartWatchdog = ({ path, argv, env, removals: list }) => {
    const shell = spawn(path, argv.slice(1), {
      env: Object.fromEntries(env.map((entry) => entry.split('=', 2))),
      stdio: ['pipe', 'ignore', 'ignore', list!],
    });
    started.push(shell);
    return {
      pid: shell.pid!,
      stdin: new StreamSink(shell.stdin!),
      onExit: (listener) => shell.once('exit', listener),
    };
  };
  const serverDies = async () => {
    const shell = started.at(-1)!;
    shell.stdin?.end();
    await once(shell, 'exit');
  };
  return { watchdog: new Watchdog(null, start, removals), removals, start, serverDies, started };
}

const inFolder = (name: string) => `${folder}/${name}`;

function directory(name: string, mode = 0o1500): string {
  const path = Buffer.from(inFolder(name), 'latin1');
  mkdirSync(path);
  chmodSync(path, mode);
  return inFolder(name);
}

function file(name: string, content = '', mode = 0o1400): string {
  writeFileSync(inFolder(name), content);
  chmodSync(inFolder(name), mode);
  return inFolder(name);
}

test('leaves nothing behind when the server dies before its first program', async () => {
  const { start, removals, serverDies, started } = newWatchdog();
  const supervisor = new Supervisor(null, start, removals);
  const path = directory('a');
  supervisor.removeAfterDeath(path, 'directory');
  expect(started).toHaveLength(1);
  await serverDies();
  expect(existsSync(path)).toBe(false);
});

test('starts no watchdog after the server has closed, and then accepts no entry', async () => {
  const { start, removals, started } = newWatchdog();
  const supervisor = new Supervisor(null, start, removals);
  await supervisor.close();
  expect(() => supervisor.removeAfterDeath(directory('a'), 'directory')).toThrow('shutting down');
  expect(started).toEqual([]);
});

test('accepts no entry while the watchdog cannot be started', () => {
  const emfile = Object.assign(new Error('pipe2: EMFILE'), { code: 'EMFILE' });
  const { removals } = newWatchdog();
  const start = () => {
    throw emfile;
  };
  const supervisor = new Supervisor(null, start, removals);
  expect(() => supervisor.removeAfterDeath(inFolder('a'), 'directory')).toThrow(
    'the watchdog process could not be started: this server has no file descriptor left',
  );
});

test('removes registered entries that were not taken out, whenever they were registered', async () => {
  const { watchdog, removals, serverDies } = newWatchdog();
  const [a, b, c, d, e] = [directory('a'), directory('b'), file('c'), file('d'), directory('e')];
  removals.add(a, 'directory');
  const takeOutB = removals.add(b, 'directory');
  takeOutB();
  watchdog.ensureRunning();
  const takeOutD = removals.add(d, 'file');
  removals.add(e, 'directory');
  takeOutD();
  // The slot of `d` is used again. A second call must not free it.
  removals.add(c, 'file');
  takeOutD();
  takeOutB();
  await serverDies();
  expect(readdirSync(folder).sort()).toEqual(['b', 'd']);
});

test('removes nothing when it is dismissed', async () => {
  const { watchdog, removals } = newWatchdog();
  watchdog.ensureRunning();
  removals.add(directory('a'), 'directory');
  await watchdog.close();
  expect(readdirSync(folder)).toEqual(['a']);
});

test('registers everything again after a restart', async () => {
  const { watchdog, removals, serverDies, started } = newWatchdog();
  watchdog.ensureRunning();
  removals.add(directory('a'), 'directory');
  started[0]!.kill('SIGKILL');
  await once(started[0]!, 'exit');
  watchdog.ensureRunning();
  expect(started).toHaveLength(2);
  await serverDies();
  expect(readdirSync(folder)).toEqual([]);
});

test('keeps entries that are not empty, not marked, or links', async () => {
  const { watchdog, removals, serverDies } = newWatchdog();
  watchdog.ensureRunning();
  const full = directory('full');
  writeFileSync(join(full, 'content'), '');
  const target = directory('target');
  symlinkSync(target, inFolder('link'));
  for (const path of [full, directory('ordinary', 0o755), inFolder('link'), inFolder('missing')]) {
    removals.add(path, 'directory');
  }
  for (const path of [file('filled', 'x'), file('usual', '', 0o644), inFolder('absent')]) {
    removals.add(path, 'file');
  }
  await serverDies();
  expect(readdirSync(folder).sort()).toEqual(['filled', 'full', 'link', 'ordinary', 'target', 'usual']);
});

test('keeps entries that another server has locked', async () => {
  const { watchdog, removals, serverDies } = newWatchdog();
  watchdog.ensureRunning();
  const [held, free] = [directory('held'), directory('free')];
  const heldFile = file('held-file');
  const locks = [held, heldFile].map((path) => openSync(path, 'r'));
  expect(locks.map((fd) => libc.lock(fd, 'shared'))).toEqual([true, true]);
  removals.add(held, 'directory');
  removals.add(free, 'directory');
  removals.add(heldFile, 'file');
  await serverDies();
  locks.forEach(closeSync);
  expect(readdirSync(folder).sort()).toEqual(['held', 'held-file']);
});

test('accepts every name and every path that can be mounted at', async () => {
  const { watchdog, removals, serverDies } = newWatchdog();
  watchdog.ensureRunning();
  const bytes = Array.from({ length: 255 }, (_, index) => String.fromCharCode(index + 1));
  const names = bytes.filter((byte) => byte !== '/').map((byte) => `${byte}x${byte}`);
  const others = [' * $(touch no) `touch no` "\'', '-rf', '\\n\\', '$HOME', '~', '[a]', '\n', 'd\n\nd'];
  for (const name of [...names, ...others]) removals.add(directory(name), 'directory');
  const deepest = nested(4_094);
  removals.add(deepest, 'directory');
  expect(() => removals.add(nested(4_095), 'directory')).toThrow('too long');
  await serverDies();
  expect(readdirSync(folder)).toEqual(['n']);
  expect(existsSync(join(deepest, '..'))).toBe(true);
  expect(existsSync(deepest)).toBe(false);
  expect(existsSync('no')).toBe(false);
});

/** A placeholder whose path has this length. */
function nested(length: number): string {
  let path = inFolder('n');
  while (path.length < length - 256) path += `/${'n'.repeat(99)}`;
  mkdirSync(path, { recursive: true });
  path += `/${'p'.repeat(length - path.length - 1)}`;
  mkdirSync(path);
  chmodSync(path, 0o1500);
  return path;
}

test('replaces locks, which exclude each other', () => {
  const path = directory('d');
  const [a, b] = [openSync(path, 'r'), openSync(path, 'r')];
  expect([libc.lock(a, 'shared'), libc.lock(b, 'shared')]).toEqual([true, true]);
  expect(libc.lock(a, 'exclusive')).toBe(false);
  // A lock that could not be changed is lost.
  expect(libc.lock(b, 'exclusive')).toBe(true);
  expect(libc.lock(a, 'shared')).toBe(false);
  closeSync(b);
  expect(libc.lock(a, 'exclusive')).toBe(true);
  closeSync(a);
  expect(() => libc.lock(a, 'shared')).toThrow('EBADF');
});
