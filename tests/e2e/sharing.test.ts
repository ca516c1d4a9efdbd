import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { base64, shell, terminal } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const sharing = { processSharing: true };

/** A client whose session has references. */
async function connect(
  clientName: string,
  more: { resumeSessionId?: string; detachedSessionTtlMs?: number } = {},
) {
  const client = await server.connect({ handshake: false });
  const sessionId = await client.handshake({ clientName, capabilities: sharing, ...more });
  onTestFinished(() => client.close());
  return Object.assign(client, { sessionId });
}

async function start(client: TestClient, params: Parameters<typeof client.call<'process/start'>>[1]) {
  const { ref } = await client.call('process/start', params);
  return ref!;
}

const attachments = (client: TestClient, processId: string) =>
  client.received
    .filter(
      ({ method, params }) =>
        method === 'process/attachment' && (params as { processId: string }).processId === processId,
    )
    .map(
      ({ params }) =>
        params as { role: string; reason?: string; attached: { client: string; role: string }[] },
    );

const attachment = (client: TestClient, processId: string, role: string) =>
  client.waitFor(
    ({ method, params }) =>
      method === 'process/attachment' &&
      (params as { processId: string }).processId === processId &&
      (params as { role: string }).role === role,
  );

describe('a reference', () => {
  test('is returned only to a client that asks for it', async () => {
    const [asks, plain] = [await connect('asks'), await server.connect()];
    expect(await start(asks, shell('p', 'true'))).toMatch(/^[0-9a-z]{8}$/);
    expect(await plain.call('process/start', shell('p', 'true'))).not.toHaveProperty('ref');
  });

  test('is accepted wherever a process id is, on every connection of the owner', async () => {
    const [one, other] = [await connect('one'), await connect('other')];
    const processId = await start(one, terminal('p', 'echo ready; cat'));
    const read = await other.call('process/read', { processId, waitMs: 10_000 });
    expect(Buffer.from(read.chunks[0]!.chunk, 'base64').toString()).toContain('ready');
    expect(await other.call('process/snapshot', { processId })).toMatchObject({ running: true });
    expect(await other.call('process/signal', { processId, signal: 'SIGTERM' })).toEqual({});
    expect(await other.call('process/wait', { processId })).toMatchObject({ exitCode: 143 });
    expect(await other.call('process/terminate', { processId })).toEqual({ running: false });
  });

  test('of an unknown process gets the same error as any unknown id', async () => {
    const client = await connect('c');
    await expect(client.call('process/read', { processId: 'zzzzzzzz' })).rejects.toThrow(
      'unknown process id zzzzzzzz',
    );
    await expect(client.call('process/attach', { ref: 'zzzzzzzz' })).rejects.toThrow(
      'unknown process id zzzzzzzz',
    );
    await expect(client.call('process/attach', { name: 'none' })).rejects.toThrow(
      'unknown process name none',
    );
    await expect(client.call('process/attach', {})).rejects.toThrow('expected `ref`, `name` or `processId`');
  });
});

describe('two processes', () => {
  test('never have the same id on one connection', async () => {
    const [one, other] = [await connect('one'), await connect('other')];
    const ref = await start(one, { ...shell('p', 'sleep 60'), name: 'same-id' });
    await start(other, shell(ref, 'sleep 60'));
    await expect(other.call('process/attach', { name: 'same-id' })).rejects.toThrow(
      `a process of this session has the id ${ref}`,
    );
    const third = await connect('third');
    await third.call('process/attach', { ref });
    await expect(third.call('process/start', shell(ref, 'true'))).rejects.toThrow(
      `this connection is attached to process ${ref}; choose another id`,
    );
    await third.call('process/detach', { processId: ref });
    expect(await start(third, shell(ref, 'true'))).not.toBe(ref);
    await one.call('process/terminate', { processId: 'p' });
  });
});

describe('a name', () => {
  test('finds the process, and is free again when it has exited', async () => {
    const [one, other] = [await connect('one'), await connect('other')];
    const ref = await start(one, { ...shell('p', 'read line'), pipeStdin: true, name: 'build' });
    await expect(start(other, { ...shell('q', 'true'), name: 'build' })).rejects.toThrow(
      `the name build is in use by the running process ${ref}`,
    );
    expect(await other.call('process/attach', { name: 'build' })).toMatchObject({ ref, name: 'build' });
    await one.call('process/terminate', { processId: 'p' });
    await other.closedProcess(ref);
    const next = await start(other, { ...shell('q', 'true'), name: 'build' });
    expect(await one.call('process/attach', { name: 'build' })).toMatchObject({ ref: next });
  });
});

describe('a viewer', () => {
  test('gets the retained output first, then what follows, without a gap or a repeat', async () => {
    const [owner, viewer] = [await connect('owner'), await connect('viewer')];
    const ref = await start(owner, { ...shell('p', 'echo 1; read line; echo 2'), pipeStdin: true });
    await owner.waitFor(({ method }) => method === 'process/output');
    const attached = await viewer.call('process/attach', { ref, afterSeq: 0 });
    expect(attached).toMatchObject({ processId: ref, role: 'viewer', nextSeq: 1, tty: false, closed: false });
    await owner.call('process/write', { processId: 'p', chunk: base64('go\n') });
    const events = await viewer.closedProcess(ref);
    expect(events.text()).toBe('1\n2\n');
    expect((await owner.closedProcess('p')).text()).toBe('1\n2\n');
  });

  test('may only read', async () => {
    const [owner, viewer] = [await connect('owner'), await connect('viewer')];
    const ref = await start(owner, terminal('p', 'cat'));
    await viewer.call('process/attach', { ref });
    const requests = [
      viewer.call('process/write', { processId: ref, chunk: base64('x') }),
      viewer.call('process/resize', { processId: ref, rows: 1, cols: 1 }),
      viewer.call('process/closeStdin', { processId: ref }),
    ];
    for (const request of requests) await expect(request).rejects.toThrow('is driven by the client `owner`');
    for (const request of [
      viewer.call('process/signal', { processId: ref, signal: 'interrupt' }),
      viewer.call('process/terminate', { processId: ref }),
    ]) {
      await expect(request).rejects.toThrow('as a viewer; attach with the role `driver` first');
    }
    expect(await viewer.call('process/detach', { processId: ref })).toEqual({});
    expect(await viewer.call('process/terminate', { processId: ref })).toEqual({ running: true });
  });
});

describe('a driver', () => {
  test('takes over, writes and resizes; the session drives again when it leaves', async () => {
    const [owner, other] = [await connect('owner'), await connect('other')];
    const ref = await start(owner, terminal('p', 'stty -echo; echo ready; cat'));
    await owner.waitFor(({ method }) => method === 'process/output');
    await expect(other.call('process/attach', { ref, role: 'driver' })).rejects.toMatchObject({
      code: -32011,
      message: expect.stringContaining('driven by the client `owner`'),
    });
    const attached = await other.call('process/attach', { ref, role: 'driver', takeOver: true });
    expect(attached).toMatchObject({ role: 'driver', tty: true, size: { rows: 24, cols: 80 } });
    expect((await attachment(owner, 'p', 'viewer')).params).toMatchObject({
      reason: 'takenOver',
      attached: [
        { client: 'other', role: 'driver' },
        { client: 'owner', role: 'viewer' },
      ],
      attachedCount: 2,
    });
    await expect(owner.call('process/write', { processId: 'p', chunk: base64('x') })).rejects.toThrow(
      '`other`',
    );
    await other.call('process/resize', { processId: ref, rows: 30, cols: 90 });
    const listed = await owner.call('process/list', {});
    expect(listed.processes[0]).toMatchObject({ processId: 'p', ref, size: { rows: 30, cols: 90 } });
    await other.call('process/write', { processId: ref, chunk: base64('hello\n') });
    await owner.waitFor(() => owner.process('p').text().includes('hello'));
    await other.close();
    expect((await attachment(owner, 'p', 'driver')).params).toMatchObject({ reason: 'driverLeft' });
    expect(await owner.call('process/write', { processId: 'p', chunk: base64('x') })).toEqual({
      status: 'accepted',
    });
  });
});

describe('a detached process', () => {
  test('outlives its session and can be picked up by name', async () => {
    const first = await connect('first', { detachedSessionTtlMs: 0 });
    const params = { ...shell('p', 'echo before; read line; echo $line'), pipeStdin: true };
    const ref = await start(first, { ...params, name: 'job', lifetime: { type: 'detached' } });
    await first.waitFor(({ method }) => method === 'process/output');
    expect(await first.call('process/list', {})).toMatchObject({
      processes: [{ processId: 'p', ref, name: 'job', lifetime: 'detached', owner: 'local' }],
    });
    await first.close();
    const second = await connect('second');
    const { processId } = await second.call('process/attach', { name: 'job', role: 'driver', afterSeq: 0 });
    await second.call('process/write', { processId, chunk: base64('after\n') });
    expect((await second.closedProcess(processId)).text()).toBe('before\nafter\n');
    const { processes } = await second.call('process/list', { scope: 'owner' });
    expect(processes.find((process) => process.ref === ref)).toMatchObject({ state: 'closed', exitCode: 0 });
  });

  test('neither waits for the session that has detached, nor sends it output; an attach continues', async () => {
    const [starter, other] = [await connect('starter'), await connect('other')];
    const params = { ...shell('p', 'exec yes'), windowBytes: 1 };
    const ref = await start(starter, { ...params, lifetime: { type: 'detached' } });
    const info = async () => {
      const { processes } = await other.call('process/list', { scope: 'owner' });
      return processes.find((process) => process.ref === ref)!;
    };
    await starter.waitFor(({ method }) => method === 'process/output');
    expect((await info()).attached).toEqual([{ client: 'starter', role: 'driver' }]);
    starter.setReading(false);
    const detaching = starter.call('process/detach', { processId: 'p' });
    // More than its window, the sockets and the queue hold.
    await waitFor('the program to continue', async () => (await info()).outputBytes! > 32 * 1024 * 1024);
    expect((await info()).attached).toEqual([]);
    starter.setReading(true);
    await detaching;
    await start(starter, shell('after', 'echo'));
    await starter.closedProcess('after');
    expect(starter.process('p').events).toHaveLength(1);

    await other.call('process/terminate', { processId: ref });
    await waitFor('the end', async () => (await info()).state === 'closed');
    const { nextSeq } = await info();
    const again = await starter.call('process/attach', { ref, afterSeq: nextSeq - 3 });
    expect(again).toMatchObject({ processId: 'p', role: 'viewer', nextSeq: nextSeq - 2, closed: true });
    await waitFor('its last event', () => starter.process('p').events.at(-1)?.kind === 'closed');
    expect(starter.process('p').events.map(({ seq }) => seq)).toEqual([1, nextSeq - 2, nextSeq - 1]);
  });
});

test('attachment notifications of one turn are sent as one', async () => {
  const owner = await connect('owner');
  const ref = await start(owner, shell('p', 'sleep 60'));
  const viewer = await connect('viewer');
  await Promise.all(Array.from({ length: 20 }, () => viewer.call('process/attach', { ref })));
  await attachment(owner, 'p', 'driver');
  expect(attachments(owner, 'p').length).toBeLessThan(5);
});
