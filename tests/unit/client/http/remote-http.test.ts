import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { encodeBase64 } from '../../../../src/base/base64.ts';
import type { Capabilities } from '../../../../src/client/connection/server-messages.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { HttpBodies } from '../../../../src/client/http/http-bodies.ts';
import { type HttpRequestClient, RemoteHttp } from '../../../../src/client/http/remote-http.ts';
import {
  BODY_QUEUES_MAX_BYTES,
  BODY_WINDOW_BYTES,
  MAX_BODY_DELTA_BYTES,
} from '../../../../src/client/limits.ts';

const HEAD = { status: 200, headers: [{ name: 'x', value: 'y' }], bodyBase64: '' };

/** A fake client that records calls and answers `http/request` with the given result. */
function fixture(
  answer: unknown = HEAD,
  capabilities: Capabilities = { httpCancel: true, httpFlowControl: true },
) {
  const calls: { method: string; params: Record<string, unknown> }[] = [];
  const call = async (method: string, params: Record<string, unknown>) => {
    calls.push({ method, params });
    if (answer instanceof Error && method === 'http/request') throw answer;
    return method === 'http/request' ? answer : {};
  };
  const bodies = new HttpBodies();
  const http = new RemoteHttp({ capabilities, call: call as HttpRequestClient['call'] }, bodies);
  const send = (seq: number, bytes: Uint8Array, done = false, requestId = 'http-1') =>
    bodies.receive({ requestId, seq, deltaBase64: encodeBase64(bytes), done, error: null });
  return { http, calls, send };
}

describe('RemoteHttp.request', () => {
  test('sends every field that the reference requires', async () => {
    const { http, calls } = fixture({ ...HEAD, bodyBase64: 'aGk=' });
    const answer = await http.request({ url: 'http://a/', body: 'text' }, { timeoutMs: 1.2 });
    expect(new TextDecoder().decode(answer.body)).toBe('hi');
    expect(calls[0]?.params).toEqual({
      requestId: 'http-1',
      method: 'GET',
      url: 'http://a/',
      headers: [],
      bodyBase64: 'dGV4dA==',
      timeoutMs: 2,
      redirectPolicy: 'follow',
      streamResponse: false,
    });
  });

  test.each([null, {}, { ...HEAD, status: 'x' }, { ...HEAD, headers: [{}] }, { ...HEAD, bodyBase64: '!' }])(
    'rejects the invalid result %j',
    async (answer) => {
      await expect(fixture(answer).http.request({ url: 'http://a/' })).rejects.toMatchObject({
        kind: 'protocol',
      });
    },
  );

  test.each(['aborted', 'timeout'] as const)(
    'cancels a request that the caller gave up (%s)',
    async (kind) => {
      const { http, calls } = fixture(new ClientError(kind, 'over'));
      await expect(http.request({ url: 'http://a/' })).rejects.toThrow('over');
      await expect(http.stream({ url: 'http://a/' })).rejects.toThrow('over');
      const cancelled = calls.filter(({ method }) => method === 'http/cancel');
      expect(cancelled.map(({ params }) => params.requestId)).toEqual(['http-1', 'http-2']);
    },
  );

  test('does not cancel a request that the server refused', async () => {
    const { http, calls } = fixture(new ClientError('server', 'no'));
    await expect(http.request({ url: 'http://a/' })).rejects.toThrow('no');
    expect(calls).toHaveLength(1);
  });
});

describe('RemoteHttp.stream', () => {
  test('reports consumed bytes for each half of the window', async () => {
    const { http, calls, send } = fixture();
    const { body } = await http.stream({ url: 'http://a/' });
    expect(calls[0]?.params).toMatchObject({ streamResponse: true, windowBytes: BODY_WINDOW_BYTES });
    const half = new Uint8Array(BODY_WINDOW_BYTES / 2);
    send(1, half);
    const pieces = body[Symbol.asyncIterator]();
    await pieces.next();
    expect(calls).toHaveLength(1);
    const second = pieces.next();
    send(2, half);
    await second;
    expect(calls[1]).toEqual({
      method: 'http/consumed',
      params: { requestId: 'http-1', bytes: half.length },
    });
    send(3, new Uint8Array(0), true);
    expect(await pieces.next()).toEqual({ done: true, value: undefined });
    expect(calls).toHaveLength(2);
  });

  test('uses no extension that the server lacks', async () => {
    const { http, calls, send } = fixture(HEAD, {});
    const { body } = await http.stream({ url: 'http://a/' });
    expect(calls[0]?.params).not.toHaveProperty('windowBytes');
    send(1, new Uint8Array(BODY_WINDOW_BYTES));
    for await (const piece of body) {
      expect(piece).toHaveLength(BODY_WINDOW_BYTES);
      break;
    }
    expect(calls).toHaveLength(1);
  });

  test('frees the queue of an aborted stream, whether or not it is read', async () => {
    const { http, send } = fixture();
    const owner = new AbortController();
    await http.stream({ url: 'http://a/' }, { signal: owner.signal });
    const piece = new Uint8Array(MAX_BODY_DELTA_BYTES);
    const count = BODY_QUEUES_MAX_BYTES / MAX_BODY_DELTA_BYTES;
    for (let seq = 1; seq <= count; seq++) send(seq, piece);
    owner.abort(new Error('mine'));
    const { body } = await http.stream({ url: 'http://a/' });
    send(1, piece, false, 'http-2');
    send(2, new Uint8Array(0), true, 'http-2');
    let bytes = 0;
    for await (const { length } of body) bytes += length;
    expect(bytes).toBe(piece.length);
  });

  test('cancels a stream once when the reader leaves or aborts', async () => {
    const left = fixture();
    const stream = await left.http.stream({ url: 'http://a/' });
    left.send(1, new Uint8Array(1));
    for await (const _ of stream.body) break;
    stream.cancel();
    expect(left.calls.filter(({ method }) => method === 'http/cancel')).toHaveLength(1);

    const aborted = fixture();
    const owner = new AbortController();
    const { body } = await aborted.http.stream({ url: 'http://a/' }, { signal: owner.signal });
    owner.abort(new Error('mine'));
    await expect(body[Symbol.asyncIterator]().next()).rejects.toMatchObject({ kind: 'aborted' });
    expect(aborted.calls.filter(({ method }) => method === 'http/cancel')).toHaveLength(1);
  });

  test('applies the timeout until the body has arrived, not until it is read', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const late = fixture();
    const { body } = await late.http.stream({ url: 'http://a/' }, { timeoutMs: 100 });
    await vi.advanceTimersByTimeAsync(100);
    await expect(body[Symbol.asyncIterator]().next()).rejects.toMatchObject({ kind: 'timeout' });
    expect(late.calls.filter(({ method }) => method === 'http/cancel')).toHaveLength(1);

    const whole = fixture();
    const stream = await whole.http.stream({ url: 'http://a/' }, { timeoutMs: 100 });
    whole.send(1, new Uint8Array(3), true);
    await vi.advanceTimersByTimeAsync(100);
    for await (const piece of stream.body) expect(piece).toHaveLength(3);
    expect(whole.calls).toHaveLength(1);

    const read = fixture();
    const quick = await read.http.stream({ url: 'http://a/' }, { timeoutMs: 100 });
    read.send(1, new Uint8Array(3), true);
    for await (const _ of quick.body);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('does not cancel a stream that reached its end', async () => {
    const { http, calls, send } = fixture();
    const { body, cancel } = await http.stream({ url: 'http://a/' });
    send(1, new Uint8Array(0), true);
    for await (const _ of body);
    cancel();
    expect(calls).toHaveLength(1);
  });
});
