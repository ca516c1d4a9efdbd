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
import { type StartWatchdog, Watchdog } from '../../../../src/process/tree/watchdog.ts';

const libc = loadLibc();
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'removal-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

/** A watchdog and a function that simulates the server's death. */
function newWatchdog() {
  const started: ReturnType<typeof spawn>[] = [];
  const start: StartWatchdog = ({ path, argv, env }) => {
    const shell = spawn(path, argv.slice(1), {
      env: Object.fromEntries(env.map((entry) => entry.split('=', 2))),
      stdio: ['pipe', 'ignore', 'ignore'],
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
  return { watchdog: new Watchdog(null, start), start, serverDies, started };
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
  const { start, serverDies, started } = newWatchdog();
  const supervisor = new Supervisor(null, start);
  const path = directory('a');
  supervisor.removeAfterDeath(path, 'directory');
  expect(started).toHaveLength(1);
  await serverDies();
  expect(existsSync(path)).toBe(false);
});

test('starts no watchdog after the server has closed', async () => {
  const { start, started } = newWatchdog();
  const supervisor = new Supervisor(null, start);
  await supervisor.close();
  supervisor.removeAfterDeath(directory('a'), 'directory');
  expect(started).toEqual([]);
});

test('removes registered entries that were not forgotten, whenever they were registered', async () => {
  const { watchdog, serverDies } = newWatchdog();
  const [a, b, c, d, e] = [directory('a'), directory('b'), file('c'), file('d'), directory('e')];
  watchdog.removeAfterDeath(a, 'directory');
  watchdog.removeAfterDeath(b, 'directory');
  watchdog.forgetRemoval(b);
  watchdog.ensureRunning();
  watchdog.removeAfterDeath(c, 'file');
  watchdog.removeAfterDeath(d, 'file');
  watchdog.removeAfterDeath(e, 'directory');
  watchdog.forgetRemoval(d);
  await serverDies();
  expect(readdirSync(folder).sort()).toEqual(['b', 'd']);
});

test('removes nothing when it is dismissed', async () => {
  const { watchdog } = newWatchdog();
  watchdog.ensureRunning();
  watchdog.removeAfterDeath(directory('a'), 'directory');
  await watchdog.close();
  expect(readdirSync(folder)).toEqual(['a']);
});

test('registers everything again after a restart', async () => {
  const { watchdog, serverDies, started } = newWatchdog();
  watchdog.ensureRunning();
  watchdog.removeAfterDeath(directory('a'), 'directory');
  started[0]!.kill('SIGKILL');
  await once(started[0]!, 'exit');
  watchdog.ensureRunning();
  expect(started).toHaveLength(2);
  await serverDies();
  expect(readdirSync(folder)).toEqual([]);
});

test('keeps entries that are not empty, not marked, or links', async () => {
  const { watchdog, serverDies } = newWatchdog();
  watchdog.ensureRunning();
  const full = directory('full');
  writeFileSync(join(full, 'content'), '');
  const target = directory('target');
  symlinkSync(target, inFolder('link'));
  for (const path of [full, directory('ordinary', 0o755), inFolder('link'), inFolder('missing')]) {
    watchdog.removeAfterDeath(path, 'directory');
  }
  for (const path of [file('filled', 'x'), file('usual', '', 0o644), inFolder('absent')]) {
    watchdog.removeAfterDeath(path, 'file');
  }
  await serverDies();
  expect(readdirSync(folder).sort()).toEqual(['filled', 'full', 'link', 'ordinary', 'target', 'usual']);
});

test('keeps entries that another server has locked', async () => {
  const { watchdog, serverDies } = newWatchdog();
  watchdog.ensureRunning();
  const [held, free] = [directory('held'), directory('free')];
  const heldFile = file('held-file');
  const locks = [held, heldFile].map((path) => openSync(path, 'r'));
  expect(locks.map((fd) => libc.lock(fd, 'shared'))).toEqual([true, true]);
  watchdog.removeAfterDeath(held, 'directory');
  watchdog.removeAfterDeath(free, 'directory');
  watchdog.removeAfterDeath(heldFile, 'file');
  await serverDies();
  locks.forEach(closeSync);
  expect(readdirSync(folder).sort()).toEqual(['held', 'held-file']);
});

test('accepts every byte in a name except a newline', async () => {
  const { watchdog, serverDies } = newWatchdog();
  watchdog.ensureRunning();
  const bytes = Array.from({ length: 255 }, (_, index) => String.fromCharCode(index + 1));
  const names = bytes.filter((byte) => !'/\n'.includes(byte)).map((byte) => `${byte}x${byte}`);
  const others = [' * $(touch no) `touch no` "\'', '-rf', '\\n\\', '$HOME', '~', '[a]'];
  for (const name of [...names, ...others]) watchdog.removeAfterDeath(directory(name), 'directory');
  // Forgetting compares exactly, even if the name looks like a shell pattern.
  watchdog.forgetRemoval(inFolder('[a]'));
  const unspeakable = directory('line\nbreak');
  watchdog.removeAfterDeath(unspeakable, 'directory');
  await serverDies();
  expect(readdirSync(folder).sort()).toEqual(['[a]', 'line\nbreak']);
  expect(existsSync('no')).toBe(false);
});

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
