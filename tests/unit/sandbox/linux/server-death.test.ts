import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { childrenOf, isAlive, processesWith } from '../../../support/machine.ts';
import { waitFor } from '../../../support/wait-for.ts';

const SERVER = join(import.meta.dirname, '../../../fixtures/sandbox-server.mjs');
const MANY_WORKSPACES = join(import.meta.dirname, '../../../fixtures/many-workspaces.mjs');
const USER = join(import.meta.dirname, '../../../fixtures/sandbox-user.mjs');
const PLACEHOLDERS = ['.codex', '.git', 'later'];
let folder: string;
let servers: Server[] = [];

interface Server {
  readonly process: ChildProcess;
  text(): string;
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'server-death-'));
});

afterEach(async () => {
  for (const { process } of servers) await kill(process);
  servers = [];
  await waitFor('the programs to end', () => processesWith(folder).length === 0);
  rmSync(folder, { recursive: true });
});

async function startServer(program = SERVER, ...args: string[]): Promise<Server> {
  const server = spawn(process.execPath, [program, folder, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  server.stdout.on('data', (bytes: Buffer) => {
    text += bytes;
  });
  servers.push({ process: server, text: () => text });
  await waitFor('the program', () => text.includes('ready'), 45_000);
  return servers.at(-1)!;
}

async function kill(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  server.kill('SIGKILL');
  await once(server, 'exit');
}

test('placeholders are removed when the server is killed', async () => {
  mkdirSync(join(folder, 'own'));
  const server = await startServer();
  expect(readdirSync(folder).sort()).toEqual([...PLACEHOLDERS, 'own']);
  const bwraps = () => childrenOf(server.process.pid!).filter((pid) => commandOf(pid).startsWith('bwrap\0'));
  await waitFor('a sandbox for each program and one pre-built', () => bwraps().length === 5);
  const running = bwraps();
  await kill(server.process);
  await waitFor('the placeholders to go', () => readdirSync(folder).length === 1);
  expect(readdirSync(folder)).toEqual(['own']);
  await waitFor('every bwrap to go', () => !running.some((pid) => isAlive(pid)));
});

test('placeholders stay while another server uses them, and are removed with the last one', async () => {
  const [first, second] = [await startServer(), await startServer()];
  const watchdog = watchdogOf(first);
  await kill(first.process);
  await waitFor('the watchdog of the first to be done', () => !isAlive(watchdog));
  expect(readdirSync(folder).sort()).toEqual(PLACEHOLDERS);
  expect(second.text()).toBe('ready\n');
  await kill(second.process);
  await waitFor('the placeholders to go', () => readdirSync(folder).length === 0);
});

test('neither programs nor placeholders stay after the death of a server that has used 2,000 workspaces', async () => {
  const server = await startServer(MANY_WORKSPACES, '2000', '25');
  const workspaces = readdirSync(folder);
  const left = () => workspaces.flatMap((workspace) => readdirSync(join(folder, workspace)));
  expect(workspaces).toHaveLength(2_000);
  expect(left()).toHaveLength(25);
  const watchdog = watchdogOf(server);
  // The watchdog has nothing to do until the server dies, however many entries were registered.
  expect(cpuTicks(watchdog)).toBeLessThan(10);
  const program = Number(/^program (\d+)$/m.exec(server.text())?.[1]);
  expect(isAlive(program)).toBe(true);
  const killedAt = performance.now();
  await kill(server.process);
  await waitFor('the program to die', () => !isAlive(program), 10_000);
  const diedMs = Math.round(performance.now() - killedAt);
  await waitFor('the placeholders to go', () => left().length === 0);
  const removedMs = Math.round(performance.now() - killedAt);
  console.info(`the program died after ${diedMs} ms, the last placeholder was removed after ${removedMs} ms`);
});

test('a pre-built sandbox does not keep its process alive and ends with it', async () => {
  const user = spawn(process.execPath, [USER, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  user.stdout.on('data', (bytes: Buffer) => {
    text += bytes;
  });
  await once(user, 'close');
  const [, pid] = /^first\nsecond\nthird\nbwrap (\d+)\n$/.exec(text) ?? [];
  // A sandbox that keeps the process alive would have ended before.
  expect(Number(pid)).toBeGreaterThan(0);
  await waitFor('the bwrap to go', () => !isAlive(Number(pid)));
  await waitFor('the placeholders to go', () => readdirSync(folder).length === 0);
});

/** The watchdog shell that cleans up after a server. */
function watchdogOf({ process }: Server): number {
  const watchdog = childrenOf(process.pid!).find((pid) => commandOf(pid).includes('exec-server-watchdog'));
  expect(watchdog).toBeDefined();
  return watchdog!;
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
}

/** CPU time of a process in clock ticks: user and system. */
function cpuTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}
