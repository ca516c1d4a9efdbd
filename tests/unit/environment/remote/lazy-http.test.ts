import { expect, onTestFinished, test, vi } from 'vitest';
import type { StreamingHttpResponse } from '../../../../src/client/backend.ts';
import { LazyConnection } from '../../../../src/environment/remote/lazy-connection.ts';
import { LazyHttp } from '../../../../src/environment/remote/lazy-http.ts';
import { FakeConnector, settle } from '../fake-connector.ts';

/** Requests over a connection that is closed when unused. */
function fixture() {
  const connector = new FakeConnector();
  const cancelled: string[] = [];
  connector.respond = (attempt) => {
    const stream = async ({ url }: { url: string }): Promise<StreamingHttpResponse> => {
      if (url === 'bad') throw new Error('bad');
      async function* body() {
        yield Buffer.from('one');
        yield Buffer.from('two');
      }
      return { status: 200, headers: [], body: body(), cancel: () => cancelled.push(url) };
    };
    const request = async () => ({ status: 204, headers: [], body: new Uint8Array(0) });
    Object.assign(attempt.http, { stream, request });
    attempt.succeed();
  };
  const connection = new LazyConnection('e', connector);
  connection.retire();
  return { http: new LazyHttp(connection), connector, cancelled };
}

test('a request connects and keeps the connection until the response', async () => {
  const { http, connector } = fixture();
  expect(await http.request({ url: 'x' })).toMatchObject({ status: 204 });
  await settle();
  expect(connector.last.client.state).toBe('closed');
});

test('a body keeps the connection until its end', async () => {
  const { http, connector } = fixture();
  const { body } = await http.stream({ url: 'x' });
  const pieces = body[Symbol.asyncIterator]();
  await pieces.next();
  await settle();
  expect(connector.last.client.state).toBe('connected');
  await pieces.next();
  await pieces.next();
  await settle();
  expect(connector.last.client.state).toBe('closed');
});

test('a cancelled body or a failed request releases the connection', async () => {
  const { http, connector, cancelled } = fixture();
  (await http.stream({ url: 'x' })).cancel();
  await settle();
  expect(cancelled).toEqual(['x']);
  expect(connector.last.client.state).toBe('closed');
  await expect(http.stream({ url: 'bad' })).rejects.toThrow('bad');
  await settle();
  expect(connector.last.client.state).toBe('closed');
});

test('an abort of a body releases the connection without a read', async () => {
  const { http, connector } = fixture();
  const owner = new AbortController();
  await http.stream({ url: 'x' }, { signal: owner.signal });
  owner.abort(new Error('enough'));
  await settle();
  expect(connector.last.client.state).toBe('closed');
});

test('a timeout of a body releases the connection without a read', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const { http, connector } = fixture();
  await http.stream({ url: 'x' }, { timeoutMs: 50 });
  const { body } = await http.stream({ url: 'y' }, { timeoutMs: 1_000 });
  await vi.advanceTimersByTimeAsync(50);
  expect(connector.last.client.state).toBe('connected');
  for await (const _piece of body);
  expect(connector.last.client.state).toBe('closed');
  expect(vi.getTimerCount()).toBe(0);
});
