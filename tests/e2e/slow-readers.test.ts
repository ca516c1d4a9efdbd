import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { ExecProcess, LostEvent, ProcessEvent } from '../../src/client/backend.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { outputOf } from '../../src/client/process/output.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../src/server/config/config.ts';
import { ExecServer } from '../../src/server/exec-server.ts';
import { startServer, startServerProcess, TcpProxy } from '../../src/testing/index.ts';
import { memoryOf, processState } from '../support/machine.ts';
import { shell, terminal } from '../support/programs.ts';
import { startExecutorProgram, TestRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';

/** Prints its pid and then numbers, several times what the window and a pipe hold. */
const COUNT = 1_500_000;
const counting = (to = COUNT) => `echo $$; exec seq 1 ${to}`;
const endless = 'echo $$; exec yes';

function counted(pid: number, to = COUNT): string {
  const numbers = execFileSync('seq', ['1', `${to}`], { maxBuffer: 1024 ** 3 });
  return createHash('sha256').update(`${pid}\n`).update(numbers).digest('hex');
}

async function connected(config: Partial<ExecServerConfig> = {}): Promise<ExecServerClient> {
  const server = await startServer(config);
  onTestFinished(() => server.close());
  return connectTo(server.url);
}

async function connectTo(url: string): Promise<ExecServerClient> {
  const client = await ExecServerClient.connect({ url });
  onTestFinished(() => client.close());
  return client;
}

/** Waits until a program sleeps, which one that only prints does when its output is not read. */
async function held(pid: number): Promise<void> {
  let asleep = 0;
  await waitFor('the program to wait for its reader', () => {
    asleep = processState(pid) === 'S' ? asleep + 1 : 0;
    return asleep > 20;
  });
}

/** Reads the pid that the program prints first. The program then waits for the reader. */
async function firstStep(process: ExecProcess) {
  const reader = process.events()[Symbol.asyncIterator]();
  const { value } = await reader.next();
  const pid = Number(
    Buffer.from((value as Extract<ProcessEvent, { type: 'output' }>).bytes)
      .toString()
      .split('\n')[0],
  );
  await held(pid);
  return { reader, pid };
}

/** Reads all output. Makes the program wait once, at the beginning, and then reads on. */
async function readSlowly(process: ExecProcess, onLost?: (lost: LostEvent) => void) {
  const hash = createHash('sha256');
  let pid = 0;
  for await (const { bytes } of outputOf(process, onLost && { onLost })) {
    hash.update(bytes);
    if (pid !== 0) continue;
    pid = Number(Buffer.from(bytes).toString().split('\n')[0]);
    await held(pid);
  }
  return { sha256: hash.digest('hex'), pid };
}

describe('a reader that is slower than the program', () => {
  test('gets 50 MB completely, in bounded memory of the server', async () => {
    const server = await startServerProcess();
    onTestFinished(() => server.close());
    const client = await connectTo(server.url);
    const process = await client.backend.start(shell('p', counting(7_000_000)));
    const { sha256, pid } = await readSlowly(process);
    expect(sha256).toBe(counted(pid, 7_000_000));
    expect((await process.wait()).exitCode).toBe(0);
    expect(memoryOf(server.process.pid!, 'VmHWM')).toBeLessThan(256 * 1024 * 1024);
  });

  test('gets the text of a loop and of a callback completely', async () => {
    const client = await connected();
    const command = ['sh', '-c', counting()];
    const hashes = { loop: createHash('sha256'), callback: createHash('sha256') };
    const process = await client.spawn(command);
    let loopPid = 0;
    for await (const text of process) {
      hashes.loop.update(text);
      if (loopPid !== 0) continue;
      loopPid = Number.parseInt(text, 10);
      await held(loopPid);
    }
    let callbackPid = 0;
    const { exitCode, truncated } = await client.run(command, {
      onStdout: async (text) => {
        hashes.callback.update(text);
        if (callbackPid !== 0) return;
        callbackPid = Number.parseInt(text, 10);
        await held(callbackPid);
      },
    });
    expect([exitCode, truncated]).toEqual([0, false]);
    expect(hashes.loop.digest('hex')).toBe(counted(loopPid));
    expect(hashes.callback.digest('hex')).toBe(counted(callbackPid));
  });

  test('makes a faster one wait, and both get everything', async () => {
    const client = await connected();
    const process = await client.backend.start(shell('p', counting()));
    const fast = createHash('sha256');
    const reading = (async () => {
      for await (const { bytes } of outputOf(process)) fast.update(bytes);
    })();
    const { sha256, pid } = await readSlowly(process);
    await reading;
    expect([sha256, fast.digest('hex')]).toEqual([counted(pid), counted(pid)]);
  });

  test('gets everything again after a lost connection during the wait, and the program waits again', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'slow-readers-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const server = await startServer({ retainedOutputBytesPerProcess: 16 * 1024 ** 2 });
    onTestFinished(() => server.close());
    const proxy = await TcpProxy.open(server.url);
    onTestFinished(() => proxy.close());
    const client = await connectTo(proxy.url);
    // Less than the server retains and the client keeps.
    const first = 400_000;
    const script = `echo $$; seq 1 ${first}; touch ${folder}/written; while [ ! -e ${folder}/go ]; do sleep 0.01; done; exec seq ${first + 1} ${COUNT}`;
    const process = await client.backend.start({ ...shell('p', script), windowBytes: 64 * 1024 });
    const hash = createHash('sha256');
    let pid = 0;
    let bytes = 0;
    let waits = 0;
    for await (const piece of outputOf(process)) {
      hash.update(piece.bytes);
      bytes += piece.bytes.length;
      pid ||= Number(Buffer.from(piece.bytes).toString().split('\n')[0]);
      if (waits === 0) {
        await held(pid);
        expect(existsSync(join(folder, 'written'))).toBe(false);
        proxy.interrupt();
        await waitFor('the program to continue without a client', () => existsSync(join(folder, 'written')));
        proxy.restore();
        await waitFor('the recovery', () => client.state === 'connected');
        writeFileSync(join(folder, 'go'), '');
        waits++;
      } else if (waits === 1 && bytes > 4 * 1024 ** 2) {
        await held(pid);
        waits++;
      }
    }
    expect([hash.digest('hex'), waits]).toEqual([counted(pid), 2]);
    expect((await process.wait()).exitCode).toBe(0);
  });
});

describe('a program that waits for its reader', () => {
  test.each([
    ['pipes', shell],
    ['a terminal', terminal],
  ])('on %s continues when the reader leaves its loop', async (_name, start) => {
    const client = await connected();
    const process = await client.backend.start(start('p', counting()));
    const read = await firstStep(process);
    await read.reader.return?.();
    expect(await process.wait()).toMatchObject({ exitCode: 0, closed: true });
  });

  test('continues when the reader is aborted, although it never reads again', async () => {
    const client = await connected();
    const process = await client.backend.start(shell('p', counting()));
    const controller = new AbortController();
    const reader = process.events({ signal: controller.signal });
    await reader.next();
    const { reader: other } = await firstStep(process);
    await other.return?.();
    controller.abort();
    expect(await process.wait()).toMatchObject({ exitCode: 0, closed: true });
  });

  test('has not ended for `wait` before the reader reads on', async () => {
    const client = await connected();
    const process = await client.backend.start(shell('p', counting()));
    const { reader, pid } = await firstStep(process);
    let ended = false;
    const waiting = process.wait().then((state) => {
      ended = true;
      return state;
    });
    await held(pid);
    expect(ended).toBe(false);
    let rest = 0;
    for await (const event of reader) {
      if (event.type === 'output') rest += event.bytes.length;
      expect(event.type).not.toBe('lost');
    }
    expect(rest).toBeGreaterThan(8 * 1024 ** 2);
    expect(await waiting).toMatchObject({ exitCode: 0 });
  });

  test('ends when it is killed or its time is up, although nothing is read', async () => {
    const client = await connected();
    const process = await client.spawn(['sh', '-c', endless]);
    await firstStep(process);
    await process.kill();
    expect(await process.wait()).toMatchObject({ exitCode: 137, closed: true });

    const limited = await client.spawn(['sh', '-c', endless], { timeoutMs: 3_000 });
    const { pid } = await firstStep(limited);
    expect(await limited.wait()).toMatchObject({ exitCode: 137, closed: true });
    expect(processState(pid)).toBe('gone');
  });

  test('can be read and looked at meanwhile', async () => {
    const client = await connected();
    const process = await client.backend.start(shell('p', endless));
    const { pid } = await firstStep(process);
    const page = await process.read({ afterSeq: process.revision - 1 });
    expect(page.nextSeq).toBeGreaterThan(1);
    expect(page.exited).toBe(false);
    const snapshot = await client.call('process/snapshot', { processId: 'p' });
    expect(snapshot.running).toBe(true);
    const polled = await process.read({ afterSeq: page.nextSeq - 1, waitMs: 10 });
    expect([polled.chunks, polled.nextSeq]).toEqual([[], page.nextSeq]);
    await held(pid);
  });

  test('waits for nothing when its client detaches or another one takes over', async () => {
    const server = await startServer();
    onTestFinished(() => server.close());
    const [owner, other] = [await connectTo(server.url), await connectTo(server.url)];
    const left = await owner.spawn(['sh', '-c', counting()], { detached: true });
    await firstStep(left);
    await left.detach();
    const { processes } = owner;
    await waitFor('the end of the process that was left', async () => {
      return (await processes.get(left.ref!)).state === 'closed';
    });

    const taken = await owner.spawn(['sh', '-c', counting()], { detached: true });
    const { reader } = await firstStep(taken);
    const driver = await other.attach(taken.ref!, { takeOver: true });
    expect((await driver.wait()).exitCode).toBe(0);
    // The first client is a viewer by now: it gets the rest, or learns how much it has missed.
    let bytes = 0;
    for await (const event of reader) {
      if (event.type === 'output') bytes += event.bytes.length;
      else if (event.type === 'lost') bytes += event.bytes!;
    }
    expect(bytes).toBeGreaterThan(8 * 1024 ** 2);
  });

  test('waits for a client that has taken over', async () => {
    const server = await startServer();
    onTestFinished(() => server.close());
    const [owner, other] = [await connectTo(server.url), await connectTo(server.url)];
    const own = await owner.backend.start({ ...shell('p', `read line; ${counting()}`), pipeStdin: true });
    const driver = await other.attach(own.ref!, { takeOver: true });
    await driver.write('go\n');
    const { sha256, pid } = await readSlowly(driver);
    expect(sha256).toBe(counted(pid));
  });
});

test.each<[string, () => Promise<ExecServerClient>]>([
  [
    'a unix socket',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'slow-readers-'));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const server = new ExecServer({ ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0 });
      onTestFinished(() => server.close());
      return connectTo(await server.listen({ kind: 'unix', path: join(folder, 'socket') }));
    },
  ],
  [
    'a relay',
    async () => {
      const relay = await TestRelay.open();
      onTestFinished(() => relay.close());
      const executor = startExecutorProgram(relay);
      onTestFinished(() => executor.stop());
      const client = await relay.connect();
      onTestFinished(() => client.close());
      return client;
    },
  ],
])('a slow reader loses nothing over %s', async (_name, open) => {
  const client = await open();
  const process = await client.backend.start(shell('p', counting()));
  const { sha256, pid } = await readSlowly(process);
  expect(sha256).toBe(counted(pid));
});
