import { describe, expect, test } from 'vitest';
import { FakeServer, SILENCE } from '../fake-server.ts';
import { sharingServer } from './sharing-server.ts';

const kind = (expected: string, rest: Record<string, unknown> = {}) =>
  expect.objectContaining({ name: 'ClientError', kind: expected, ...rest });

describe('client.processes', () => {
  const info = (ref: string, rest = {}) => ({
    processId: ref,
    ref,
    argv: ['make', 'all'],
    cwd: 'file:///srv/my%20app',
    tty: false,
    state: 'running',
    startedAtMs: 1,
    nextSeq: 1,
    ...rest,
  });

  test('lists every page, of the owner by default', async () => {
    const server = sharingServer();
    server.answers['process/list'] = ({ after }) =>
      after === undefined ? { processes: [info('a')], next: 7 } : { processes: [info('b')] };
    const client = await server.connect();
    expect((await client.processes.list()).map(({ ref }) => ref)).toEqual(['a', 'b']);
    await client.processes.list({ scope: 'server', ports: true });
    expect(server.requests('process/list').map(({ params }) => params)).toEqual([
      { scope: 'owner' },
      { scope: 'owner', after: 7 },
      { scope: 'server', ports: true },
      { scope: 'server', ports: true, after: 7 },
    ]);
    await client.close();
  });

  test('returns native paths, dates, and null for what the server does not report', async () => {
    const server = sharingServer();
    const ended = { state: 'closed', exitCode: 137, reason: 'timeout', endedAtMs: 5, outputBytes: 7 };
    server.answers['process/list'] = () => ({
      processes: [
        info('a', { tty: true, size: { rows: 1, cols: 2 }, ports: [80], unknown: 1 }),
        info('b', { ...ended, name: 'n', owner: 'o', lifetime: 'detached', argvTruncated: true }),
      ],
    });
    const client = await server.connect();
    const common = {
      argv: ['make', 'all'],
      cwd: '/srv/my app',
      startedAt: new Date(1),
      nextSeq: 1,
      attached: [],
      recording: null,
      sandbox: null,
    };
    expect(await client.processes.list()).toEqual([
      {
        ...common,
        ...{ processId: 'a', ref: 'a', name: null, owner: null, lifetime: 'session', argvTruncated: false },
        ...{
          tty: true,
          size: { rows: 1, cols: 2 },
          state: 'running',
          exitCode: null,
          signal: null,
          reason: null,
        },
        ...{ endedAt: null, outputBytes: null, ports: [80] },
      },
      {
        ...common,
        ...{ processId: 'b', ref: 'b', name: 'n', owner: 'o', lifetime: 'detached', argvTruncated: true },
        ...{ tty: false, size: null, state: 'closed', exitCode: 137, signal: 'SIGKILL', reason: 'timeout' },
        ...{ endedAt: new Date(5), outputBytes: 7, ports: null },
      },
    ]);
    await client.close();
  });

  test.each<[string, unknown]>([
    ['no object', null],
    ['no list', { processes: {} }],
    ['a position that is no number', { processes: [], next: 'x' }],
    ['an entry without a start', { processes: [info('a', { startedAtMs: null })] }],
    ['an entry with an unknown state', { processes: [info('a', { state: 'asleep' })] }],
    ['an entry whose arguments are no texts', { processes: [info('a', { argv: [1] })] }],
  ])('rejects a result with %s', async (_name, result) => {
    const server = sharingServer();
    const client = await server.connect();
    server.answers['process/list'] = (_params, link) => {
      link.respond(server.requests('process/list').at(-1)!, result);
      return SILENCE;
    };
    await expect(client.processes.list()).rejects.toEqual(kind('protocol'));
    await client.close();
  });

  test('ends a list that repeats a page, and one that does not end by itself', async () => {
    const server = sharingServer();
    server.answers['process/list'] = () => ({ processes: [], next: 1 });
    const client = await server.connect();
    await expect(client.processes.list()).rejects.toEqual(kind('protocol'));
    expect(server.requests('process/list')).toHaveLength(2);
    let next = 0;
    server.answers['process/list'] = () => ({ processes: [], next: ++next });
    await expect(client.processes.list()).rejects.toEqual(kind('protocol'));
    await client.close();
  });

  test('lists only the session on a server that cannot share', async () => {
    const server = new FakeServer();
    server.answers['process/list'] = () => ({ processes: [] });
    const client = await server.connect();
    expect(await client.processes.list()).toEqual([]);
    expect(server.requests('process/list')[0]!.params).toEqual({});
    await expect(client.processes.list({ scope: 'owner' })).rejects.toEqual(kind('unsupported'));
    await client.close();
  });

  test('finds, signals and terminates by reference or name; references win', async () => {
    const server = sharingServer();
    server.answers['process/list'] = () => ({
      processes: [
        info('x', { name: 'y' }),
        info('y', { name: 'build', state: 'closed' }),
        info('z', { name: 'build' }),
      ],
    });
    server.answers['process/signal'] = () => ({});
    const client = await server.connect();
    expect((await client.processes.get('y')).ref).toBe('y');
    await expect(client.processes.get('w')).rejects.toEqual(kind('notFound'));
    await client.processes.signal('build', 'SIGHUP');
    expect(await client.processes.terminate('x')).toBe(true);
    expect(server.requests('process/signal')[0]!.params).toEqual({ processId: 'z', signal: 'SIGHUP' });
    expect(server.requests('process/terminate')[0]!.params).toEqual({ processId: 'x' });
    await client.close();
  });
});
