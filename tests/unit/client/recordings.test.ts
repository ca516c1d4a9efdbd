import { describe, expect, test } from 'vitest';
import { FakeServer } from './fake-server.ts';

const kind = (expected: string) => expect.objectContaining({ name: 'ClientError', kind: expected });

function recordingServer(): FakeServer {
  const server = new FakeServer();
  server.environmentInfo = { capabilities: { processRecording: true } };
  return server;
}

const info = (recordingId: string, rest: Record<string, unknown> = {}) => ({
  recordingId,
  state: 'complete',
  bytes: 5,
  ref: 'r',
  owner: 'o',
  command: 'make all',
  tty: false,
  startedAtMs: 1_000,
  path: 'file:///srv/my%20app/a.cast',
  ...rest,
});

describe('list', () => {
  test('lists every page, with native paths and dates', async () => {
    const server = recordingServer();
    server.answers['recordings/list'] = ({ after }) =>
      after === undefined
        ? { recordings: [info('a')], next: 'a' }
        : { recordings: [info('b', { name: 'n' })] };
    const client = await server.connect();
    const common = { state: 'complete', bytes: 5, ref: 'r', owner: 'o', command: 'make all', tty: false };
    const file = { startedAt: new Date(1_000), path: '/srv/my app/a.cast' };
    expect(await client.recordings.list({ scope: 'server' })).toEqual([
      { recordingId: 'a', name: null, ...common, ...file },
      { recordingId: 'b', name: 'n', ...common, ...file },
    ]);
    expect(server.requests('recordings/list').map(({ params }) => params)).toEqual([
      { scope: 'server' },
      { scope: 'server', after: 'a' },
    ]);
    await client.close();
  });

  test.each<[string, unknown]>([
    ['no list', { recordings: {} }],
    ['a position that is no text', { recordings: [], next: 1 }],
    ['an entry with an unknown state', { recordings: [info('a', { state: 'lost' })] }],
    ['an entry without a path', { recordings: [info('a', { path: null })] }],
    ['a page that repeats', { recordings: [], next: 'a' }],
  ])('rejects a result with %s', async (_name, result) => {
    const server = recordingServer();
    server.answers['recordings/list'] = () => result as object;
    const client = await server.connect();
    await expect(client.recordings.list()).rejects.toEqual(kind('protocol'));
    await client.close();
  });
});

describe('read', () => {
  test('reads pages until one is empty', async () => {
    const server = recordingServer();
    const bytes = Buffer.from('hello recording');
    server.answers['recordings/read'] = ({ offset }) => ({
      chunk: bytes.subarray(offset, offset + 6).toString('base64'),
      bytes: bytes.length,
      state: 'complete',
    });
    const client = await server.connect();
    const pages: Uint8Array[] = [];
    for await (const page of client.recordings.read('a', { offset: 2 })) pages.push(page);
    expect(Buffer.concat(pages).toString()).toBe('llo recording');
    expect(server.requests('recordings/read').map(({ params }) => params.offset)).toEqual([2, 8, 14, 15]);
    await client.close();
  });

  test('rejects a page that has no bytes', async () => {
    const server = recordingServer();
    server.answers['recordings/read'] = () => ({ chunk: 7 });
    const client = await server.connect();
    await expect(client.recordings.read('a').next()).rejects.toEqual(kind('protocol'));
    await client.close();
  });
});

test('a server without recordings is an error that says so', async () => {
  const client = await new FakeServer().connect();
  await expect(client.recordings.list()).rejects.toEqual(kind('unsupported'));
  await expect(client.recordings.read('a').next()).rejects.toEqual(kind('unsupported'));
  await expect(client.spawn(['true'], { record: true })).rejects.toEqual(kind('unsupported'));
  await expect(client.spawn(['true'], { record: 1 as unknown as true })).rejects.toEqual(
    kind('invalidInput'),
  );
  await client.close();
});
