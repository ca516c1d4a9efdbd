import { describe, expect, onTestFinished, test } from 'vitest';
import type { ExecProcess } from '../../src/client/backend.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import type { SessionOptions } from '../../src/client/connection/session-options.ts';
import { startServer, TcpProxy } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

/** Much more than the window and a pipe hold. */
const LINES = 200_000;
const WINDOW = { windowBytes: 16 * 1024 };
/** Prints when it gets a line of input. */
const counting = { ...shell('p', `read line; exec seq 1 ${LINES}`), pipeStdin: true };

async function openServer() {
  const server = await startServer();
  onTestFinished(() => server.close());
  const proxy = await TcpProxy.open(server.url);
  onTestFinished(() => proxy.close());
  const connect = async (options: SessionOptions & { url?: string } = {}) => {
    const client = await ExecServerClient.connect({ url: server.url, ...options });
    onTestFinished(() => client.close());
    return client;
  };
  return { server, proxy, connect };
}

/** Reads all events and returns the exit code. */
async function readToEnd(process: ExecProcess): Promise<number | null> {
  for await (const _event of process.events());
  return process.state.exitCode;
}

describe('a program with a flow-control window continues', () => {
  test('after its client has missed that it drives again', async () => {
    const { proxy, connect } = await openServer();
    const client = await connect({ url: proxy.url });
    const rival = await connect();
    const process = await client.backend.start({ ...counting, ...WINDOW });
    const taken = await rival.attach(process.ref!, { takeOver: true });
    await waitFor('the take-over', () => process.role === 'viewer');
    proxy.interrupt();
    await waitFor('the loss of the connection', () => client.state === 'recovering');
    await taken.detach();
    proxy.restore();
    await waitFor('the role', () => process.role === 'driver');
    await process.write('go\n');
    expect(await readToEnd(process)).toBe(0);
  });

  test('when another client resumes the session and does not read it', async () => {
    const { proxy, connect } = await openServer();
    const first = await connect({ url: proxy.url });
    const process = await first.backend.start({ ...counting, ...WINDOW });
    const { sessionId } = first;
    proxy.interrupt();
    const second = (await waitFor('the session', () =>
      connect({ resumeSessionId: sessionId }).catch(() => undefined),
    ))!;
    await second.call('process/write', { processId: 'p', chunk: Buffer.from('go\n').toString('base64') });
    await second.call('process/wait', { processId: 'p', until: 'closed', timeoutMs: null });
    expect((await second.processes.get(process.ref!)).exitCode).toBe(0);
  });

  test('when a client that asked for no window drives it by another handle', async () => {
    const { connect } = await openServer();
    const client = await connect();
    // More than the window that an attach asks for.
    const script = 'read line; exec seq 1 1000000';
    const process = await client.backend.start({ ...shell('p', script), pipeStdin: true, windowBytes: null });
    await process.takeOver();
    const other = await client.attach(process.ref!, { role: 'driver' });
    await process.write('go\n');
    expect([await readToEnd(process), await readToEnd(other)]).toEqual([0, 0]);
  });

  test('when it is asked to end, and its last output arrives', async () => {
    const { connect } = await openServer();
    const client = await connect();
    // Both get the signal. The last output is that of the shell only if the other program has ended.
    const script = 'trap "wait; echo bye; exit 7" TERM; yes & wait';
    const process = await client.backend.start({ ...shell('p', script), ...WINDOW });
    const events = process.events();
    await events.next();
    await waitFor('the program to wait', async () => {
      const { outputBytes } = await client.processes.get(process.ref!);
      return outputBytes! >= WINDOW.windowBytes;
    });
    await process.terminate({ type: 'graceful', timeoutMs: 60_000 });
    expect(await process.wait()).toMatchObject({ exitCode: 7, closed: true });
    const { stdout } = await client.call('process/snapshot', { processId: 'p' });
    expect(Buffer.from(stdout, 'base64').toString()).toMatch(/bye\n$/);
    await events.return?.();
  });
});

test('a client that attaches as the driver chooses its window', async () => {
  const { connect } = await openServer();
  const client = await connect();
  const { ref } = await client.spawn(`read line; exec seq 1 ${LINES}`, { pipeStdin: true, detached: true });
  const driver = await (await connect()).attach(ref!, { takeOver: true, ...WINDOW });
  const events = driver.events();
  await driver.write('go\n');
  await events.next();
  const outputBytes = async () => (await client.processes.get(ref!)).outputBytes!;
  await waitFor('the program to wait', async () => (await outputBytes()) >= WINDOW.windowBytes);
  // The window, one notification beyond it, and what the pipe holds. A program that does not wait ends meanwhile.
  for (let call = 0; call < 50; call++) await outputBytes();
  expect(await outputBytes()).toBeLessThan(10 * WINDOW.windowBytes + 128 * 1024);
  await events.return?.();
  expect(await readToEnd(driver)).toBe(0);
});
