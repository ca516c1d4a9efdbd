import { describe, expect, test, vi } from 'vitest';
import type { ExecProcess, ProcessEvent } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { OutputCollector } from '../../../../src/client/process/output-collector.ts';
import { communicate, run, wait } from '../../../../src/client/process/run.ts';
import { RpcError, RpcErrorCode } from '../../../../src/protocol/errors.ts';
import { forceGc } from '../../../support/force-gc.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { FakeServer, SILENCE } from '../fake-server.ts';

const params = { processId: 'p', argv: ['x'], cwd: 'file:///', env: {}, tty: false };

test('runs an argv in the default directory with the environment of the server', async () => {
  const server = new FakeServer();
  const client = await server.connect();
  const running = run(client.backend, ['a', 'b'], { env: { X: '1' } });
  const [start] = await server.untilRequests('process/start', 1);
  expect(start!.params).toMatchObject({
    processId: expect.stringMatching(/^run-[0-9a-f]{32}$/),
    argv: ['a', 'b'],
    cwd: 'file:///work',
    env: { X: '1' },
    envPolicy: { inherit: 'all', ignoreDefaultExcludes: true },
    tty: false,
    pipeStdin: false,
  });
  server.link.exited(start!.params.processId, 1, 5);
  server.link.closedProcess(start!.params.processId, 2);
  expect((await running).exitCode).toBe(5);
  await client.close();
});

test('asks a server without environment info once for its working directory', async () => {
  const server = new FakeServer();
  server.environmentInfo = undefined;
  server.answers['environment/info'] = () => ({
    shell: { name: 'sh', path: '/bin/sh' },
    cwd: 'file:///reported',
  });
  const client = await server.connect();
  const running = [run(client.backend, ['a'])];
  await server.untilRequests('process/start', 1);
  running.push(run(client.backend, ['b']));
  for (const { params } of await server.untilRequests('process/start', 2)) {
    expect(params.cwd).toBe('file:///reported');
    server.link.exited(params.processId, 1);
    server.link.closedProcess(params.processId, 2);
  }
  await Promise.all(running);
  expect(server.requests('environment/info')).toHaveLength(1);
  await client.close();
});

test('uses the root directory when the server reports no working directory', async () => {
  const server = new FakeServer();
  server.environmentInfo = undefined;
  server.answers['environment/info'] = () => {
    throw new RpcError(RpcErrorCode.methodNotFound, 'unknown method');
  };
  const client = await server.connect();
  expect(await client.backend.defaultCwd?.()).toBeNull();
  const running = run(client.backend, ['a']);
  const [start] = await server.untilRequests('process/start', 1);
  expect(start!.params.cwd).toBe('file:///');
  server.link.exited(start!.params.processId, 1);
  server.link.closedProcess(start!.params.processId, 2);
  await running;
  await client.close();
});

test('applies the timeout to the request for the working directory', async () => {
  const server = new FakeServer();
  server.environmentInfo = undefined;
  const client = await server.connect();
  await expect(run(client.backend, ['x'], { timeoutMs: 10 })).rejects.toMatchObject({ kind: 'timeout' });
  expect(server.requests('process/start')).toEqual([]);
  await client.close();
});

test('terminates the program when its stdin cannot be closed', async () => {
  const server = new FakeServer();
  server.environmentInfo = { capabilities: {} };
  const client = await server.connect();
  await expect(run(client.backend, ['cat'], { input: 'x' })).rejects.toMatchObject({ kind: 'unsupported' });
  const [terminate] = await server.untilRequests('process/terminate', 1);
  expect(terminate!.params.processId).toBe(server.requests('process/start')[0]!.params.processId);
  await client.close();
});

test('applies the timeout to the start', async () => {
  const server = new FakeServer();
  server.answers['process/start'] = () => SILENCE;
  const client = await server.connect();
  await expect(run(client.backend, ['x'], { timeoutMs: 10 })).rejects.toMatchObject({ kind: 'timeout' });
  await client.close();
});

test('terminates a program that times out during a recovery afterwards', async () => {
  const server = new FakeServer();
  const client = await server.connect();
  const process = await client.backend.start(params);
  const terminate = vi.spyOn(process, 'terminate');
  server.refusal = new ClientError('connectFailed', 'not now', { retryable: true });
  server.link.break();
  const running = communicate(process, undefined, { timeoutMs: 10 });
  await waitFor('the timeout', () => terminate.mock.calls.length > 0);
  const { attempts } = server;
  await waitFor('another attempt', () => server.attempts > attempts);
  expect(server.requests('process/terminate')).toEqual([]);
  server.refusal = null;
  await server.untilRequests('process/terminate', 1);
  server.link.exited('p', 1, 137);
  server.link.closedProcess('p', 2);
  expect(await running).toMatchObject({ timedOut: true, exitCode: 137, signal: 'SIGKILL' });
  await client.close();
});

test('rejects when the connection is lost for good, despite earlier output', async () => {
  const server = new FakeServer();
  const client = await server.connect({ resumable: false });
  const process = await client.backend.start(params);
  const talking = communicate(process, undefined);
  const outcomes = Promise.allSettled([talking, wait(process), wait(process, { until: 'exited' })]);
  server.link.output('p', 1);
  await waitFor('the output', () => process.revision === 1);
  server.link.break();
  for (const outcome of await outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { kind: 'disconnected' } });
  }
});

test('has no exit code when the program cannot be terminated in time', async () => {
  const server = new FakeServer();
  server.answers['process/terminate'] = () => {
    server.link.output('p', 1, 'last output');
    return SILENCE;
  };
  const client = await server.connect();
  const process = await client.backend.start(params);
  const waiting = communicate(process, undefined, { timeoutMs: 10 });
  await server.untilRequests('process/terminate', 1);
  await waitFor('the last output', () => process.revision === 1);
  server.answers['process/terminate'] = () => ({ running: true });
  server.link.send({
    id: server.requests('process/terminate')[0]!.id,
    error: { code: -32603, message: 'no' },
  });
  expect(await waiting).toMatchObject({
    timedOut: true,
    exitCode: null,
    signal: null,
    text: { stdout: 'last output' },
  });
  await client.close();
});

test('stops writing when the program does not accept input', async () => {
  const server = new FakeServer();
  server.answers['process/write'] = () => ({ status: 'stdinClosed' });
  const client = await server.connect();
  const process = await client.backend.start({ ...params, pipeStdin: true });
  const talking = communicate(process, Buffer.alloc(1_000_000));
  await server.untilRequests('process/write', 1);
  server.link.exited('p', 1);
  server.link.closedProcess('p', 2);
  expect(await talking).toMatchObject({ exitCode: 0 });
  expect(server.requests('process/write')).toHaveLength(1);
  expect(server.requests('process/closeStdin')).toEqual([]);
  await client.close();
});

describe('OutputCollector', () => {
  const PIECE = 64 * 1024;

  /** A process that has written this many chunks. `memory` tracks their buffers. */
  function writer(pieces: number, memory: WeakRef<ArrayBufferLike>[] = []): ExecProcess {
    async function* events(): AsyncGenerator<ProcessEvent> {
      for (let seq = 1; seq <= pieces; seq++) {
        const bytes = new Uint8Array(PIECE).fill(seq);
        memory.push(new WeakRef(bytes.buffer));
        yield { type: 'output', seq, stream: 'stdout', bytes };
      }
      yield { type: 'closed', seq: pieces + 1 };
    }
    return { events } as unknown as ExecProcess;
  }

  const state = {
    ...{ exited: true, exitCode: 0, closed: true, sandboxDenied: false, failure: null },
    ...{ signal: null, timedOut: false, reason: null },
  };
  const times = { timedOut: false, wallTimeMs: 1 };

  test('keeps the first bytes, counts the others and releases their memory', async () => {
    const collector = new OutputCollector(PIECE + 1);
    const memory: WeakRef<ArrayBufferLike>[] = [];
    await collector.collect(writer(200, memory), new AbortController().signal);
    await forceGc();
    expect(memory.filter((piece) => piece.deref() !== undefined).length).toBeLessThan(10);
    const { stdout, omittedBytes } = collector.result(state, times);
    expect([stdout.length, stdout[0], stdout[PIECE]]).toEqual([PIECE + 1, 1, 2]);
    expect(omittedBytes).toBe(199 * PIECE - 1);
  });

  test.each([0, -1])('keeps nothing with a budget of %d', async (budget) => {
    const collector = new OutputCollector(budget);
    await collector.collect(writer(2), new AbortController().signal);
    expect(collector.result(state, times)).toMatchObject({
      stdout: new Uint8Array(0),
      omittedBytes: 2 * PIECE,
    });
  });
});

describe('client.spawn on a server without extensions', () => {
  test.each([
    ['limits', { limits: { wallMs: 1 } }, 'processLimits'],
    ['name', { name: 'job' }, 'processSharing'],
    ['detached', { detached: true }, 'processSharing'],
  ])('refuses %s instead of ignoring it', async (option, options, capability) => {
    const server = new FakeServer();
    const client = await server.connect();
    await expect(client.spawn(['x'], options)).rejects.toMatchObject({
      kind: 'unsupported',
      message: expect.stringMatching(new RegExp(`\`${option}\`.*${capability}`)),
    });
    expect(server.requests('process/start')).toEqual([]);
    await client.close();
  });
});
