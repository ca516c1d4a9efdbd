import { describe, expect, test } from 'vitest';
import type { ProcessEvent } from '../../../../src/client/backend.ts';
import { outputOf } from '../../../../src/client/process/output.ts';
import type { AttachOptions, ProcessAttachment } from '../../../../src/client/sharing.ts';
import { RpcError, RpcErrorCode } from '../../../../src/protocol/errors.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { type FakeLink, FakeServer, SILENCE, startParams, wirePage } from '../fake-server.ts';
import { attached, sharingServer } from './sharing-server.ts';

const kind = (expected: string, rest: Record<string, unknown> = {}) =>
  expect.objectContaining({ name: 'ClientError', kind: expected, ...rest });

const notFound = (text: string) => new RpcError(RpcErrorCode.notFound, text);

async function attach(server: FakeServer, options?: AttachOptions) {
  const client = await server.connect();
  const process = await client.attach('r', options);
  const changes: ProcessAttachment[] = [];
  process.onAttachmentChange((change) => changes.push(change));
  return { client, process, changes };
}

function report(link: FakeLink, change: Record<string, unknown>): void {
  const params = { processId: 'r', attached: [], attachedCount: 0, ...change };
  link.send({ method: 'process/attachment', params });
}

/** A short text for an event. */
function short(event: ProcessEvent): string {
  if (event.type === 'output') return `${event.seq}:${Buffer.from(event.bytes)}`;
  if (event.type === 'lost') return `lost ${event.fromSeq}-${event.toSeq}`;
  if (event.type === 'failed') return `failed ${event.error.kind}`;
  return `${event.type} ${event.seq}`;
}

async function all(events: AsyncIterable<ProcessEvent>): Promise<string[]> {
  const list: string[] = [];
  for await (const event of events) list.push(short(event));
  return list;
}

describe('attach', () => {
  test('replays what the server retains, then follows', async () => {
    const server = sharingServer({ nextSeq: 4, seqs: [2, 3] });
    const { client, process } = await attach(server);
    expect(server.requests('process/attach')[0]!.params).toEqual({
      ref: 'r',
      name: 'r',
      role: 'viewer',
      takeOver: false,
      screen: false,
    });
    const reading = all(process.events());
    for (const seq of [3, 4, 4]) server.link.output('r', seq);
    server.link.exited('r', 5, 7);
    server.link.closedProcess('r', 6);
    expect(await reading).toEqual(['lost 1-1', '2:<2>', '3:<3>', '4:<4>', 'exited 5', 'closed 6']);
    expect(process).toMatchObject({ ref: 'r', name: null, role: 'viewer' });
    await client.close();
  });

  test('ends with the process: servers limit the number of attachments', async () => {
    const server = sharingServer();
    const { client, process } = await attach(server);
    server.link.exited('r', 1);
    server.link.closedProcess('r', 2);
    await all(process.events());
    expect((await server.untilRequests('process/detach', 1))[0]!.params).toEqual({ processId: 'r' });
    await process.read();
    await process.detach();
    expect(server.requests('process/detach')).toHaveLength(1);
    await client.close();
  });

  test('misses no event that arrives together with the answer', async () => {
    const server = sharingServer({ nextSeq: 2, seqs: [1] });
    server.answers['process/read'] = () => SILENCE;
    server.answers['process/attach'] = (_params, link) => {
      link.respond(server.requests('process/attach')[0]!, attached({ nextSeq: 1 }));
      link.output('r', 1, 'early');
      link.exited('r', 2);
      link.closedProcess('r', 3);
      return SILENCE;
    };
    const { client, process } = await attach(server);
    expect(await all(process.events())).toEqual(['1:early', 'exited 2', 'closed 3']);
    await client.close();
  });

  test('begins after a sequence number', async () => {
    const server = sharingServer({ nextSeq: 6, seqs: [4, 5] });
    const { client, process } = await attach(server, { afterSeq: 4 });
    const reading = all(process.events());
    server.link.exited('r', 6);
    server.link.closedProcess('r', 7);
    expect(await reading).toEqual(['5:<5>', 'exited 6', 'closed 7']);
    await client.close();
  });

  test('refuses a sequence number that the process has not reached', async () => {
    const server = sharingServer({ nextSeq: 6 });
    await expect(attach(server, { afterSeq: 6 })).rejects.toEqual(
      kind('invalidInput', { message: expect.stringContaining('the last event is 5') }),
    );
    expect(server.requests('process/detach')).toHaveLength(1);
    await expect(attach(server, { afterSeq: -1 })).rejects.toEqual(kind('invalidInput'));
  });

  test('reports the end of a process that has ended, from every starting point', async () => {
    const page = {
      exited: true,
      exitCode: 3,
      closed: true,
      position: { streamBytes: { stdout: 3, stderr: 0, pty: 0 }, exitSeq: 2 },
    };
    for (const [afterSeq, expected] of [
      [undefined, ['1:<1>', 'exited 2', 'closed 3']],
      [1, ['exited 2', 'closed 3']],
      [2, ['closed 3']],
      [3, ['closed 3']],
    ] as const) {
      const server = sharingServer({ nextSeq: 4, seqs: [1], page });
      const { client, process } = await attach(server, afterSeq === undefined ? {} : { afterSeq });
      expect(process.state).toMatchObject({ exited: true, exitCode: 3 });
      expect(await all(process.events())).toEqual(expected);
      expect(process.state).toMatchObject({ exited: true, exitCode: 3, closed: true });
      await client.close();
    }
  });

  test('begins with the screen, and continues it', async () => {
    const screen = {
      seq: 8,
      rows: 2,
      cols: 9,
      redraw: Buffer.from('drawn').toString('base64'),
      text: 'drawn\n',
      cursor: { row: 0, col: 5 },
      alternate: false,
      title: '',
      exact: true,
    };
    const server = sharingServer({ nextSeq: 9, seqs: [7, 8] });
    server.answers['process/attach'] = () => attached({ nextSeq: 9, screen, tty: true });
    server.answers['process/screen'] = () => screen;
    const { client, process } = await attach(server, { screen: true });
    const reading = all(process.events());
    server.link.output('r', 9);
    server.link.exited('r', 10);
    server.link.closedProcess('r', 11);
    expect(await reading).toEqual(['screen 8', '9:<9>', 'exited 10', 'closed 11']);
    const drawn: string[] = [];
    for await (const { stream, bytes } of outputOf(process)) drawn.push(`${stream} ${Buffer.from(bytes)}`);
    expect(drawn).toEqual(['pty drawn', 'stdout <9>']);
    expect(await process.screen()).toEqual({ ...screen, redraw: Buffer.from('drawn') });
    await expect(client.attach('r', { screen: true, afterSeq: 1 })).rejects.toEqual(kind('invalidInput'));
    await client.close();
  });

  test('asks for a reference or a name', async () => {
    const server = sharingServer();
    server.answers['process/attach'] = ({ name }) => {
      if (name === undefined) throw notFound('unknown process not a name');
      return attached({ name });
    };
    const client = await server.connect();
    expect(await client.attach('build')).toMatchObject({ ref: 'r', name: 'build' });
    await expect(client.attach('not a name')).rejects.toEqual(
      kind('notFound', { message: expect.stringContaining('unknown process not a name') }),
    );
    const asked = server.requests('process/attach').map(({ params: { ref, name } }) => ({ ref, name }));
    expect(asked).toEqual([
      { ref: 'build', name: 'build' },
      { ref: 'not a name', name: undefined },
    ]);
    await client.close();
  });

  test('is repeated when the connection is lost before the answer', async () => {
    const server = sharingServer();
    server.answers['process/attach'] = (_params, link) => {
      if (server.links.length > 1) return attached();
      link.break();
      return SILENCE;
    };
    const { client, process } = await attach(server);
    expect(process.ref).toBe('r');
    expect(server.links).toHaveLength(2);
    await client.close();
  });

  test('detaches again when the caller gave up', async () => {
    const server = sharingServer();
    server.answers['process/attach'] = () => SILENCE;
    const client = await server.connect();
    await expect(client.attach('r', { timeoutMs: 10 })).rejects.toEqual(kind('timeout'));
    server.link.respond(server.requests('process/attach')[0]!, attached());
    expect((await server.untilRequests('process/detach', 1))[0]!.params).toEqual({ processId: 'r' });
    await client.close();
  });

  test('fails on a server that cannot share processes', async () => {
    const server = new FakeServer();
    const client = await server.connect();
    await expect(client.attach('r')).rejects.toEqual(kind('unsupported'));
    const process = await client.backend.start(startParams());
    expect(process).toMatchObject({ ref: null, role: 'driver' });
    await expect(process.takeOver()).rejects.toEqual(kind('unsupported'));
    await expect(process.screen()).rejects.toEqual(kind('unsupported'));
    await process.detach();
    expect(server.requests('process/detach')).toEqual([]);
    await client.close();
  });
});

describe('skipped events', () => {
  test('are read, and those that are gone are reported as lost', async () => {
    const server = sharingServer();
    const { client, process } = await attach(server);
    const reading = all(process.events());
    server.link.output('r', 1);
    await waitFor('the first output', () => process.revision === 1);
    server.answers['process/read'] = ({ afterSeq }) => wirePage(6, afterSeq < 5 ? [4, 5] : []);
    server.link.send({ method: 'process/skipped', params: { processId: 'r', fromSeq: 2, toSeq: 5 } });
    server.link.output('r', 6);
    server.link.exited('r', 7);
    server.link.closedProcess('r', 8);
    expect(await reading).toEqual(['1:<1>', 'lost 2-3', '4:<4>', '5:<5>', '6:<6>', 'exited 7', 'closed 8']);
    await client.close();
  });
});

describe('the role', () => {
  test('is the one of the last message from the server', async () => {
    const server = sharingServer();
    const { client, process, changes } = await attach(server);
    server.answers['process/attach'] = (_params, link) => {
      link.respond(server.requests('process/attach')[1]!, attached({ role: 'driver' }));
      const clients = [{ client: 'other', role: 'driver' }];
      report(link, { role: 'viewer', reason: 'takenOver', attached: clients, attachedCount: 1 });
      return SILENCE;
    };
    await process.takeOver();
    expect(server.requests('process/attach')[1]!.params).toEqual({
      ref: 'r',
      role: 'driver',
      takeOver: true,
    });
    expect(process.role).toBe('viewer');
    expect(process.attachedClients).toEqual([{ client: 'other', role: 'driver' }]);
    expect(changes.map(({ role, reason }) => [role, reason])).toEqual([
      ['driver', null],
      ['viewer', 'takenOver'],
    ]);
    await client.close();
  });

  test('of a started process is driver until another client takes over', async () => {
    const server = sharingServer();
    server.answers['process/start'] = () => ({ processId: 'r', sandboxType: 'none', ref: 'ref-1' });
    server.answers['process/attach'] = ({ role }) => attached({ ref: 'ref-1', role });
    const client = await server.connect();
    const process = await client.backend.start({ ...startParams('r'), name: 'build' });
    expect(process).toMatchObject({ ref: 'ref-1', name: 'build', role: 'driver' });
    report(server.link, { role: 'viewer', reason: 'takenOver' });
    await waitFor('the change', () => process.role === 'viewer');
    await process.takeOver();
    expect(process.role).toBe('driver');
    expect(server.requests('process/attach')[0]!.params.ref).toBe('ref-1');
    await client.close();
  });

  test('none ends the events with the reason', async () => {
    for (const [reason, expected] of [
      ['processGone', 'failed notFound'],
      ['accessEnded', 'failed permissionDenied'],
    ]) {
      const server = sharingServer();
      const { client, process } = await attach(server);
      report(server.link, { role: 'none', reason });
      expect(await all(process.events())).toEqual([expected]);
      expect(process.role).toBe('none');
      await client.close();
    }
  });
});

describe('after a lost connection', () => {
  test('the client attaches again with its role and continues where it was', async () => {
    const server = sharingServer();
    const { client, process, changes } = await attach(server, { role: 'driver' });
    server.link.output('r', 1);
    await waitFor('the first output', () => process.revision === 1);
    server.answers['process/read'] = ({ afterSeq }) =>
      wirePage(
        4,
        [2, 3].filter((seq) => seq > afterSeq),
      );
    server.link.break();
    const reading = all(process.events());
    await waitFor('the missed output', () => process.revision === 3);
    server.link.exited('r', 4);
    server.link.closedProcess('r', 5);
    expect(await reading).toEqual(['1:<1>', '2:<2>', '3:<3>', 'exited 4', 'closed 5']);
    expect(server.requests('process/attach')[1]!.params).toEqual({ ref: 'r', role: 'driver' });
    expect(process.role).toBe('driver');
    expect(changes).toEqual([]);
    await client.close();
  });

  test('a driver becomes a viewer when another client has taken over', async () => {
    const server = sharingServer();
    const { client, process, changes } = await attach(server, { role: 'driver' });
    server.answers['process/attach'] = ({ role }) => {
      if (role === 'driver') throw new RpcError(RpcErrorCode.invalidRequest, 'it has a driver');
      return attached({ role });
    };
    server.link.break();
    await waitFor('the new role', () => process.role === 'viewer');
    expect(changes).toEqual([{ role: 'viewer', reason: 'takenOver', attached: [], attachedCount: 0 }]);
    await waitFor('the recovery', () => client.state === 'connected');
    await client.close();
  });

  test('a process that is gone fails with the text of the server, and is not terminated', async () => {
    const server = sharingServer();
    const { client, process } = await attach(server);
    server.answers['process/attach'] = () => {
      throw notFound('process r ended at 12:00 and is no longer retained');
    };
    server.link.break();
    const reading = all(process.events());
    expect(await reading).toEqual(['failed notFound']);
    expect(process.state.failure?.message).toContain('ended at 12:00');
    await waitFor('the recovery', () => client.state === 'connected');
    await client.call('environment/status', null);
    expect(server.requests('process/terminate')).toEqual([]);
    await client.close();
  });
});

describe('several handles of one process', () => {
  test('each get every event; the last one that detaches ends the attachment', async () => {
    const server = sharingServer({ nextSeq: 3, seqs: [1, 2] });
    const { client, process: first } = await attach(server);
    const second = await client.attach('r', { afterSeq: 2 });
    const reading = [all(first.events()), all(second.events())];
    server.link.output('r', 3);
    await waitFor('the output', () => first.revision === 3 && second.revision === 3);
    await first.detach();
    expect(first.role).toBe('none');
    expect(second.role).toBe('viewer');
    expect(server.requests('process/detach')).toEqual([]);
    expect(await reading[0]).toEqual(['1:<1>', '2:<2>', '3:<3>']);
    expect(first.state.failure).toEqual(kind('closed'));
    await expect(first.wait()).rejects.toEqual(kind('closed'));
    await second.detach();
    await second.detach();
    expect(server.requests('process/detach')).toHaveLength(1);
    expect(await reading[1]).toEqual(['3:<3>']);
    await client.close();
  });

  test.each(['r', 'job'])(
    'keep the attachment when one detaches while another attaches by %s',
    async (wanted) => {
      const server = sharingServer();
      server.answers['process/attach'] = () => attached({ name: 'job' });
      const { client, process: first } = await attach(server);
      server.answers['process/attach'] = () => SILENCE;
      const attaching = client.attach(wanted);
      const detaching = first.detach();
      await client.call('environment/status', null);
      expect(server.requests('process/detach')).toEqual([]);
      server.link.respond(server.requests('process/attach')[1]!, attached({ name: 'job' }));
      const second = await attaching;
      await detaching;
      expect(server.requests('process/detach')).toEqual([]);
      server.link.output('r', 1);
      await waitFor('the output', () => second.revision === 1);
      await second.detach();
      expect(server.requests('process/detach')).toHaveLength(1);
      await client.close();
    },
  );

  test('attach again only when an earlier detach was answered, which a lost connection repeats', async () => {
    const server = sharingServer();
    const { client, process: first } = await attach(server);
    server.answers['process/detach'] = () => SILENCE;
    const detaching = first.detach();
    const attaching = client.attach('r');
    await client.call('environment/status', null);
    expect(server.requests('process/attach')).toHaveLength(1);
    server.answers['process/detach'] = () => ({});
    server.link.break();
    await Promise.all([detaching, attaching]);
    const methods = server.link.requests.map(({ method }) => method);
    expect(methods.filter((method) => /attach|detach/.test(method))).toEqual([
      'process/detach',
      'process/attach',
    ]);
    await client.close();
  });

  test('detach after a take-over that is under way, which would attach again', async () => {
    const server = sharingServer();
    const { client, process } = await attach(server);
    server.answers['process/attach'] = () => SILENCE;
    const takingOver = process.takeOver();
    const detaching = process.detach();
    await client.call('environment/status', null);
    expect(server.requests('process/detach')).toEqual([]);
    server.link.respond(server.requests('process/attach')[1]!, attached({ role: 'driver' }));
    await Promise.all([takingOver, detaching]);
    expect(server.requests('process/detach')).toHaveLength(1);
    await client.close();
  });

  test('do not wait longer for each other than their callers want', async () => {
    const server = sharingServer();
    const { client, process: first } = await attach(server);
    server.answers['process/attach'] = () => SILENCE;
    const attaching = client.attach('r');
    attaching.catch(() => {});
    await expect(first.detach({ timeoutMs: 1 })).rejects.toEqual(kind('timeout'));
    const stop = new AbortController();
    const second = client.attach('r', { signal: stop.signal });
    stop.abort();
    await expect(second).rejects.toEqual(kind('aborted'));
    expect(server.requests('process/detach')).toEqual([]);
    await client.close();
  });

  test('write under different ids, so that the server applies every write', async () => {
    const server = sharingServer();
    server.answers['process/start'] = () => ({ processId: 'r', sandboxType: 'none', ref: 'r' });
    const client = await server.connect();
    const started = await client.backend.start({ ...startParams('r'), pipeStdin: true });
    const attachedTwice = [await client.attach('r'), await client.attach('r')];
    for (const process of [started, ...attachedTwice, started]) await process.write('x');
    const ids = server.requests('process/write').map(({ params }) => params.writeId);
    expect(new Set(ids).size).toBe(4);
    await client.close();
  });

  test('end the process only with the handle that started it', async () => {
    const server = sharingServer();
    server.answers['process/start'] = () => ({ processId: 'r', sandboxType: 'none', ref: 'r' });
    const client = await server.connect();
    const started = await client.backend.start(startParams('r'));
    // A server keeps the role of the client that started the process.
    server.answers['process/attach'] = () => attached({ role: 'driver' });
    const watched = await client.attach('r');
    await watched[Symbol.asyncDispose]();
    expect([started.role, watched.role]).toEqual(['driver', 'none']);
    expect(server.requests('process/terminate')).toEqual([]);
    await started[Symbol.asyncDispose]();
    expect(server.requests('process/terminate')).toHaveLength(1);
    expect(server.requests('process/detach')).toEqual([]);
    await client.close();
  });
});
