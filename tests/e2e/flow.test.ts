import { afterEach, describe, expect, test } from 'vitest';
import {
  connectInMemory,
  startServer,
  startServerProcess,
  type TestServer,
} from '../../src/testing/index.ts';
import { CountingClient } from '../support/counting-client.ts';
import { memoryOf, processState } from '../support/machine.ts';
import { base64, shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const servers: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

function owned<Server extends { close(): Promise<void> }>(server: Server): Server {
  servers.push(server);
  return server;
}

describe('a client that reads slowly', () => {
  test('receives 2 GiB completely, and the memory of the server stays small', async () => {
    const server = owned(await startServerProcess());
    const client = await CountingClient.connect(server.url);
    const size = 2 * 1024 ** 3;
    // The client stops reading at every 64th chunk and continues in a later turn.
    let pieces = 0;
    client.onOutput = () => {
      if (++pieces % 64 !== 0) return;
      client.transport.setReceiving(false);
      setTimeout(() => client.transport.setReceiving(true), 1);
    };
    client.start({ ...shell('big', `exec head -c ${size} /dev/zero`) });
    await client.closed;
    expect(client.bytes).toBe(size);
    expect(memoryOf(server.process.pid!, 'VmHWM')).toBeLessThan(256 * 1024 * 1024);
    client.transport.close({ code: 1000, reason: '' });
  });

  test('blocks its own program, uses bounded memory and delays no other client', async () => {
    const server = owned(await startServerProcess());
    const client = await server.connect();
    const other = await server.connect();
    const before = memoryOf(server.process.pid!, 'VmRSS');
    await client.call('process/start', shell('flood', 'echo $$; exec yes'));
    await client.waitFor((message) => message.method === 'process/output');
    const pid = Number(client.process('flood').text().split('\n')[0]);
    client.setReading(false);
    // `yes` never sleeps by itself: several sleeping samples in a row mean that its pipe is full and not read.
    let asleep = 0;
    await waitFor('the program to be blocked', () => {
      asleep = processState(pid) === 'S' ? asleep + 1 : 0;
      return asleep > 20;
    });
    expect(memoryOf(server.process.pid!, 'VmRSS') - before).toBeLessThan(64 * 1024 * 1024);
    await other.call('process/start', shell('p', 'echo fine'));
    expect((await other.closedProcess('p')).text()).toBe('fine\n');
  });
});

test('command/exec/exited follows all output, also for a client that reads late', async () => {
  // The queue has space for all output, so the server collects it although the client reads nothing.
  const server = owned(await startServer({ outboundHighWaterBytes: 64 * 1024 ** 2, metrics: true }));
  const metric = async (name: string) => {
    const response = await fetch(`${server.url.replace('ws:', 'http:')}/metrics`);
    return Number(new RegExp(`^${name}\\S* (\\d+)$`, 'm').exec(await response.text())?.[1]);
  };
  const client = await server.connect();
  client.setReading(false);
  const size = 12 * 1024 * 1024;
  // A descendant writes after the server has collected the exit of the program.
  const wait = 'while kill -0 $$ 2>/dev/null; do sleep 0.01; done';
  const script = `(${wait}; head -c ${size} /dev/zero; echo end >&2) & exit 3`;
  const started = client.call('command/exec', shell('p', script));
  await waitFor(
    'the end of the output',
    async () => (await metric('exec_server_processes_finished_total')) === 1,
  );
  expect(await metric('exec_server_outbound_queue_bytes')).toBeGreaterThan(0);
  client.setReading(true);
  await started;
  await client.waitFor(({ method }) => method === 'command/exec/exited');
  expect(client.received.at(-1)).toEqual({
    method: 'command/exec/exited',
    params: { processId: 'p', exitCode: 3 },
  });
  const bytes = { stdout: 0, stderr: 0 };
  for (const { method, params } of client.received) {
    if (method !== 'command/exec/outputDelta') continue;
    const { stream, chunk } = params as { stream: 'stdout' | 'stderr'; chunk: string };
    bytes[stream] += Buffer.from(chunk, 'base64').length;
  }
  expect(bytes).toEqual({ stdout: size, stderr: 'end\n'.length });
});

describe('a process that floods its connection', () => {
  test('does not delay status and terminate: their responses overtake queued output', async () => {
    const { client, serverEnd, close } = connectInMemory({ outboundHighWaterBytes: 2_000_000 });
    servers.push({ close });
    await client.handshake();
    serverEnd.setCongested(true);
    await client.call('process/start', shell('flood', 'yes'));
    await client.call('process/start', shell('mark', 'sleep 600'));
    // With the transport congested, all output but the first chunk waits in the server while responses pass.
    const status = await client.call('environment/status', {});
    expect(status).toEqual({ status: 'ready' });
    expect(await client.call('process/terminate', { processId: 'flood' })).toEqual({ running: true });
    const arrivedBefore = client.process('flood').events.length;
    expect(client.process('flood').complete).toBe(false);
    serverEnd.setCongested(false);
    const events = await client.closedProcess('flood');
    expect(events.events.length).toBeGreaterThan(arrivedBefore);
    expect(events.exitCode).toBe(137);
  });

  test('does not block the output of another process on the connection', async () => {
    const server: TestServer = owned(await startServer());
    const client = await server.connect();
    await client.call('process/start', shell('flood', 'yes'));
    for (let round = 0; round < 20; round++) {
      await client.call('process/start', shell(`p${round}`, `echo ${round}`));
      expect((await client.closedProcess(`p${round}`)).text()).toBe(`${round}\n`);
    }
    await client.call('process/terminate', { processId: 'flood' });
    expect((await client.closedProcess('flood')).exitCode).toBe(137);
  });
});

describe('requests on one connection', () => {
  test('a long poll, a full stdin and a wait delay no other request', async () => {
    const server = owned(await startServer());
    const client = await server.connect();
    await client.call('process/start', { ...shell('deaf', 'sleep 600'), pipeStdin: true });
    const poll = client.call('process/read', { processId: 'deaf', waitMs: 600_000 });
    const wait = client.call('process/wait', { processId: 'deaf' });
    const chunk = Buffer.alloc(100_000, 1).toString('base64');
    const writes = Array.from({ length: 140 }, () =>
      client.call('process/write', { processId: 'deaf', chunk }),
    );
    // The first 129 are acknowledged (one fills the pipe, 128 wait); the others are delayed while the program does
    // not read.
    for (const write of writes.slice(0, 128)) expect(await write).toEqual({ status: 'accepted' });
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
    expect(await client.call('process/terminate', { processId: 'deaf' })).toEqual({ running: true });
    expect(await poll).toMatchObject({ exited: true, exitCode: 137 });
    expect(await wait).toEqual({ running: false, exited: true, exitCode: 137, closed: true });
    await Promise.all(writes);
  });

  test('control and waiting requests pass with concurrent-requests 1', async () => {
    const server = owned(await startServer({ concurrentRequests: 1 }));
    const client = await server.connect();
    await client.call('process/start', shell('p', 'sleep 600'));
    const polls = Array.from({ length: 5 }, () =>
      client.call('process/read', { processId: 'p', waitMs: 600_000 }),
    );
    await client.call('environment/status', {});
    await client.call('process/start', shell('q', 'echo q'));
    await client.closedProcess('q');
    expect(await client.call('process/terminate', { processId: 'p' })).toEqual({ running: true });
    for (const poll of polls) expect(await poll).toMatchObject({ exited: true });
  });

  test('about one process keep their order when sent without waiting', async () => {
    const server = owned(await startServer());
    const client = await server.connect();
    const start = client.call('process/start', { ...shell('cat', 'cat'), pipeStdin: true });
    const writes = Array.from({ length: 400 }, (_, i) =>
      client.call('process/write', { processId: 'cat', chunk: base64(`${i}\n`), writeId: `${i}` }),
    );
    const close = client.call('process/closeStdin', { processId: 'cat' });
    await start;
    for (const write of writes) expect(await write).toEqual({ status: 'accepted' });
    expect(await close).toEqual({ status: 'closed' });
    const expected = Array.from({ length: 400 }, (_, i) => `${i}\n`).join('');
    expect((await client.closedProcess('cat')).text()).toBe(expected);
  });

  test('start and terminate sent together are answered as if they were sequential', async () => {
    const server = owned(await startServer());
    const client = await server.connect();
    const start = client.call('process/start', shell('p', 'sleep 600'));
    const terminate = client.call('process/terminate', { processId: 'p' });
    expect(await start).toMatchObject({ processId: 'p' });
    expect(await terminate).toEqual({ running: true });
    expect((await client.closedProcess('p')).exitCode).toBe(137);
  });

  test('exactly one of two starts with the same id succeeds', async () => {
    const server = owned(await startServer());
    const client = await server.connect();
    const results = await Promise.allSettled([
      client.call('process/start', shell('same', 'echo one')),
      client.call('process/start', shell('same', 'echo two')),
    ]);
    expect(results.map((result) => result.status).sort()).toEqual(['fulfilled', 'rejected']);
    await client.closedProcess('same');
  });
});
