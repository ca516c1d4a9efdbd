import { expect, test } from 'vitest';
import type { FileChange, FileChanges, FileWatch } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { RemoteFileSystem } from '../../../../src/client/files/remote-file-system.ts';
import { WATCH_QUEUE_CHANGES } from '../../../../src/client/limits.ts';
import { RpcError, RpcErrorCode } from '../../../../src/protocol/errors.ts';
import type { NotificationParamsOf } from '../../../../src/protocol/registry.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { answered, FakeFileServer } from '../fake-file-server.ts';
import { FakeServer } from '../fake-server.ts';

const ROOT = 'file:///w';
const OVERFLOW = { changes: [], overflow: true };

function change(name: string): FileChange {
  return { path: `${ROOT}/${name}`, kind: 'created' };
}

async function setUp() {
  const server = new FakeFileServer(['fsWatch']);
  server.answerAnything();
  const watch = await new RemoteFileSystem(server).watch(ROOT, { recursive: false, timeoutMs: 5 });
  const { watchId } = server.params('fs/watch')[0] as { watchId: string };
  const tell = (...changes: FileChange[]) =>
    server.notify('fs/changed', { watchId, changes, overflow: false });
  return { server, watch, watchId, tell };
}

function next(iterator: AsyncIterator<FileChanges>): Promise<FileChanges | undefined> {
  return iterator.next().then(({ value }) => value as FileChanges | undefined);
}

test('requests a watch with its options', async () => {
  const { server, watchId } = await setUp();
  expect(server.calls).toMatchObject([
    { method: 'fs/watch', params: { path: ROOT, recursive: false, watchId }, options: { timeoutMs: 5 } },
  ]);
});

test('yields changes in order, and only those of the watch', async () => {
  const { server, watch, tell } = await setUp();
  const changes = watch[Symbol.asyncIterator]();
  const first = next(changes);
  server.notify('fs/changed', { watchId: 'another', changes: [change('x')], overflow: false });
  tell(change('a'));
  expect(await first).toEqual({ changes: [change('a')], overflow: false });
  tell(change('b'));
  tell(change('c'));
  expect(await next(changes)).toEqual({ changes: [change('b'), change('c')], overflow: false });
});

test('reports an overflow when too many changes wait', async () => {
  const { watch, tell } = await setUp();
  const many = Array.from({ length: WATCH_QUEUE_CHANGES }, (_, index) => change(String(index)));
  tell(...many);
  const changes = watch[Symbol.asyncIterator]();
  expect((await next(changes))?.changes).toHaveLength(WATCH_QUEUE_CHANGES);
  tell(...many);
  tell(change('one more'));
  tell(change('later'));
  expect(await next(changes)).toEqual({ changes: [change('later')], overflow: true });
});

test('reports a malformed notification as overflow', async () => {
  const { server, watch, watchId } = await setUp();
  const waiting = next(watch[Symbol.asyncIterator]());
  server.notify('fs/changed', { watchId } as NotificationParamsOf<'fs/changed'>);
  expect(await waiting).toEqual(OVERFLOW);
});

test('leaving the loop ends the watch', async () => {
  const { server, watch, watchId, tell } = await setUp();
  tell(change('a'));
  for await (const _changes of watch) break;
  expect(server.params('fs/unwatch')).toEqual([{ watchId }]);
  expect(server.listeners).toBe(0);
});

test('close ends a waiting loop, and is idempotent', async () => {
  const { server, watch } = await setUp();
  const waiting = next(watch[Symbol.asyncIterator]());
  await Promise.all([watch.close(), watch.close()]);
  expect(await waiting).toBeUndefined();
  expect(server.params('fs/unwatch')).toHaveLength(1);
});

test('a connection that ends right after the answer ends the watch', async () => {
  const server = new FakeFileServer(['fsWatch']);
  server.answerAnything();
  const answer = server.hold('fs/watch');
  const watching = new RemoteFileSystem(server).watch(ROOT);
  answer({});
  server.enter('failed');
  const watch = await watching;
  await expect(next(watch[Symbol.asyncIterator]())).rejects.toMatchObject({ kind: 'brokenPipe' });
  expect(server.listeners).toBe(0);
});

test('close does not wait for a server that does not answer', async () => {
  const { server, watch } = await setUp();
  server.hold('fs/unwatch');
  await watch.close();
  expect(server.params('fs/unwatch')).toHaveLength(1);
});

test('a refused watch leaves no listener', async () => {
  const server = new FakeFileServer(['fsWatch']);
  server.answerAnything();
  server.refuse('fs/watch', answered(-32004, 'no'));
  const attempt = new RemoteFileSystem(server).watch(ROOT);
  await expect(attempt).rejects.toMatchObject({ kind: 'notFound' });
  expect(server.listeners).toBe(0);
});

test('renews the watch after a recovery and reports an overflow', async () => {
  const { server, watch, watchId } = await setUp();
  const waiting = next(watch[Symbol.asyncIterator]());
  server.enter('recovering');
  server.enter('connected');
  expect(await waiting).toEqual(OVERFLOW);
  expect(server.params('fs/watch')).toMatchObject([{ watchId }, { watchId, path: ROOT, recursive: false }]);
});

test('renews the watch again after a second loss during the renewal', async () => {
  const { server, watch } = await setUp();
  const waiting = next(watch[Symbol.asyncIterator]());
  server.refuse('fs/watch', new ClientError('brokenPipe', 'lost'));
  server.enter('recovering');
  server.enter('connected');
  await waitFor('the attempt', () => server.params('fs/watch').length === 2);
  server.answer('fs/watch', {});
  server.enter('recovering');
  server.enter('connected');
  expect(await waiting).toEqual(OVERFLOW);
});

test('sends one renewal per connection when the connection is lost before the renewal is sent', async () => {
  const server = new FakeServer();
  server.environmentInfo = { capabilities: { fsWatch: true } };
  server.answers['fs/watch'] = ({ watchId }, link) => {
    const same = link.requests.filter(({ params }) => params?.watchId === watchId);
    if (same.length > 1) throw new RpcError(RpcErrorCode.invalidRequest, 'the id is in use');
    return {};
  };
  const client = await server.connect();
  const watch = await new RemoteFileSystem(client).watch(ROOT);
  const waiting = next(watch[Symbol.asyncIterator]());
  let isBroken = false;
  client.onStateChange((state) => {
    if (state !== 'connected' || isBroken) return;
    isBroken = true;
    server.link.break();
  });
  server.link.break();
  expect(await waiting).toEqual(OVERFLOW);
  await waitFor('another connection', () => server.links.length === 3 && client.state === 'connected');
  await waitFor('the watch on it', () => server.link.requests.some(({ method }) => method === 'fs/watch'));
  await client.call('environment/status', null);
  expect(server.link.requests.filter(({ method }) => method === 'fs/watch')).toHaveLength(1);
  await client.close();
});

test('does not renew a watch that was closed while it waited', async () => {
  const { server, watch } = await setUp();
  server.hold('fs/watch');
  server.enter('recovering');
  server.enter('connected');
  await watch.close();
  expect(server.calls.filter(({ method }) => method === 'fs/watch').at(-1)?.options.signal?.aborted).toBe(
    true,
  );
});

async function failureOf(watch: FileWatch): Promise<unknown> {
  try {
    for await (const _changes of watch);
  } catch (error) {
    return error;
  }
  return null;
}

test('a path that is gone after a recovery ends the watch after the known changes', async () => {
  const { server, watch, tell } = await setUp();
  tell(change('a'));
  server.refuse('fs/watch', answered(-32004, 'gone'));
  server.enter('recovering');
  server.enter('connected');
  const changes = watch[Symbol.asyncIterator]();
  expect(await next(changes)).toMatchObject({ changes: [change('a')] });
  await expect(changes.next()).rejects.toMatchObject({ kind: 'notFound', message: 'gone' });
});

test('does not renew a failed watch, even if its error was not read yet', async () => {
  const { server, watch } = await setUp();
  server.refuse('fs/watch', answered(-32004, 'gone'));
  server.enter('recovering');
  server.enter('connected');
  await waitFor('the failure', () => server.listeners === 0);
  server.enter('recovering');
  server.enter('connected');
  expect(server.params('fs/watch')).toHaveLength(2);
  expect(await failureOf(watch)).toMatchObject({ kind: 'notFound' });
});

test.each([
  ['failed', 'brokenPipe'],
  ['closed', 'closed'],
] as const)('a %s client ends the watch', async (state, kind) => {
  const { server, watch } = await setUp();
  const failure = failureOf(watch);
  server.enter(state);
  expect(await failure).toMatchObject({ kind });
  expect(server.params('fs/unwatch')).toEqual([]);
  expect(server.listeners).toBe(0);
});
