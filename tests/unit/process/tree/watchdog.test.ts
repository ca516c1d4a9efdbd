import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { StreamSink } from '../../../../src/process/spawn/stream-io.ts';
import { RemovalList } from '../../../../src/process/tree/removal-list.ts';
import { type StartWatchdog, Watchdog } from '../../../../src/process/tree/watchdog.ts';
import { childPids, command, isAlive, record, run, shell } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

const FIXTURES = join(import.meta.dirname, '../../../fixtures');
const STAND_IN = join(FIXTURES, 'server-stand-in.mjs');
const libc = loadLibc();

type Pids = Record<string, number>;

interface Server {
  readonly server: ChildProcess;
  readonly pids: Pids;
  text(): string;
}

async function startServer(mode: 'native' | 'node', ...wrapper: string[]): Promise<Server> {
  const [program = '', ...args] = [...wrapper, process.execPath, STAND_IN, mode];
  const server = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  server.stdout?.on('data', (bytes: Buffer) => {
    text += bytes;
  });
  await waitFor('the tree', () => text.includes('ready'));
  return { server, pids: parsePids(text), text: () => text };
}

function parsePids(text: string): Pids {
  const pairs = text.matchAll(/^(\w+) (\d+)$/gm);
  return Object.fromEntries([...pairs].map(([, name = '', pid]) => [name, Number(pid)]));
}

function living(pids: Pids): string[] {
  return Object.keys(pids).filter((name) => isAlive(pids[name]!));
}

/** Just after its start a program is not yet visible under its name. */
function watchdogPid(): Promise<number> {
  const find = () => childPids().find((pid) => commandLine(pid).includes('exec-server-watchdog')) ?? 0;
  return waitFor('the watchdog', find);
}

function commandLine(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
}

test('kills everything of a server that got SIGKILL, and nothing of another server', async () => {
  const [first, second] = await Promise.all([startServer('native'), startServer('native')]);
  first.server.kill('SIGKILL');
  await waitFor('the first tree to die', () => living(first.pids).length === 0);
  expect(living(second.pids)).toEqual(['grandchild', 'session', 'daemon', 'leader']);
  second.server.kill('SIGKILL');
  await waitFor('the second tree to die', () => living(second.pids).length === 0);
});

test('kills everything of a server that crashed', async () => {
  const { server, pids } = await startServer('native');
  server.kill('SIGABRT');
  await waitFor('the tree to die', () => living(pids).length === 0);
});

/** No tag can be set under this hard limit. */
const NO_TAGS = ['prlimit', '--rttime=1000000000:1000000000'];

test.each([
  ['child_process', 'node', []],
  ['posix_spawn', 'native', NO_TAGS],
] as const)('kills the groups with the server without tags (%s)', async (_, mode, wrapper) => {
  const { server, pids } = await startServer(mode, ...wrapper);
  server.kill('SIGKILL');
  await waitFor('the group to die', () => !isAlive(pids.leader!) && !isAlive(pids.grandchild!));
  for (const name of living(pids)) process.kill(pids[name]!, 'SIGKILL');
});

test('kills a tree by the parents of its processes when the server cannot tag', async () => {
  const { server, pids, text } = await startServer('native', ...NO_TAGS);
  server.kill('SIGUSR2');
  await waitFor('the tree to be killed', () => text().includes('killed'));
  expect(living(pids)).toEqual(['daemon']);
  process.kill(pids.daemon!, 'SIGKILL');
  server.kill('SIGKILL');
});

test('kills the tree of a server inside a server', async () => {
  const spawner = new NativeSpawner(libc);
  const transcript = record(await spawner.spawn(command([process.execPath, STAND_IN, 'native'])));
  await waitFor('the tree', () => transcript.text('stdout').includes('ready'));
  const pids = parsePids(transcript.text('stdout'));
  expect(living(pids)).toHaveLength(4);
  await transcript.child.killTree();
  await waitFor('the inner tree to die', () => living(pids).length === 0);
  transcript.child.release();
  await spawner.close();
});

test('starts with the first program, ignores SIGTERM, SIGINT and SIGHUP, is replaced when it dies, and exits on close', async () => {
  const spawner = new NativeSpawner(libc);
  expect(childPids()).toEqual([]);
  await run(spawner, shell('exit 0'));
  const watchdog = await watchdogPid();
  expect(readFileSync(`/proc/${watchdog}/limits`, 'latin1')).toMatch(/realtime timeout +unlimited/);
  const ignoresSignals = () => /SigIgn:\t0*[1-9a-f]/.test(readFileSync(`/proc/${watchdog}/status`, 'latin1'));
  await waitFor('the watchdog to be ready', ignoresSignals);
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(watchdog, signal);
  await run(spawner, shell('exit 0'));
  expect(childPids()).toEqual([watchdog]);
  process.kill(watchdog, 'SIGKILL');
  await waitFor('the watchdog to be reaped', () => childPids().length === 0);
  await run(spawner, shell('exit 0'));
  expect(await watchdogPid()).not.toBe(watchdog);
  await spawner.close();
  expect(childPids()).toEqual([]);
});

test('kills the registered groups when its pipe closes', async () => {
  let running: ReturnType<typeof spawn> | undefined;
  const watchdog = new Watchdog(null, ({ path, argv }) => {
    const started = spawn(path, argv.slice(1), { stdio: ['pipe', 'ignore', 'ignore'] });
    running = started;
    return {
      pid: started.pid!,
      stdin: new StreamSink(started.stdin),
      onExit: (listener) => started.once('exit', listener),
    };
  });
  const groups = Array.from({ length: 4 }, () =>
    spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' }),
  );
  const [first = 0, second = 0, third = 0, fourth = 0] = groups.map((group) => group.pid);
  watchdog.watchGroup(first);
  watchdog.ensureRunning();
  for (const group of [second, third, fourth]) watchdog.watchGroup(group);
  watchdog.forgetGroup(first);
  watchdog.forgetGroup(third);
  running?.stdin?.end();
  await once(running!, 'exit');
  await waitFor('two groups to die', () => !isAlive(second) && !isAlive(fourth));
  expect([first, third].map(isAlive)).toEqual([true, true]);
  for (const group of groups) group.kill('SIGKILL');
});

test('removes the listed entries that are empty, marked and not locked', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'watchdog-'));
  const removals = new RemovalList(() => openSync(join(folder, 'list'), 'w+'));
  let running: ReturnType<typeof spawn> | undefined;
  const start: StartWatchdog = ({ path, argv, removals: list }) => {
    const started = spawn(path, argv.slice(1), { stdio: ['pipe', 'ignore', 'ignore', list] });
    running = started;
    return {
      pid: started.pid!,
      stdin: new StreamSink(started.stdin!),
      onExit: (listener) => started.once('exit', listener),
    };
  };
  const watchdog = new Watchdog(null, start, removals);
  const names = Array.from({ length: 300 }, (_, number) => `entry ${number}`);
  for (const [index, name] of names.entries()) {
    const path = join(folder, name);
    if (index % 2 === 0) mkdirSync(path);
    else writeFileSync(path, '');
    chmodSync(path, 0o1555);
    removals.add(path, index % 2 === 0 ? 'directory' : 'file');
  }
  const kept = ['entry 0', 'entry 1', 'entry 2', 'entry 3'];
  chmodSync(join(folder, 'entry 0'), 0o555);
  chmodSync(join(folder, 'entry 1'), 0o1755);
  writeFileSync(join(folder, 'entry 1'), 'not empty');
  // Another server uses these.
  const script = 'exec 8<"$1" 9<"$2"; flock -x 8 && flock -x 9 && echo locked && exec sleep 1000';
  const [directory, file] = [join(folder, 'entry 2'), join(folder, 'entry 3')];
  const other = spawn('sh', ['-c', script, 'sh', directory, file], { stdio: ['ignore', 'pipe', 'ignore'] });
  await once(other.stdout, 'data');
  watchdog.ensureRunning();
  running?.stdin?.end();
  await once(running!, 'exit');
  expect(readdirSync(folder).sort()).toEqual([...kept, 'list']);
  other.kill('SIGKILL');
  removals.close();
  rmSync(folder, { recursive: true });
});
