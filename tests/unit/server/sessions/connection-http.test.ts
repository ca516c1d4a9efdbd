import { describe, expect, test } from 'vitest';
import { StartError } from '../../../../src/listener/start-error.ts';
import { NetworkError } from '../../../../src/network/errors.ts';
import type { HttpClient, HttpResponse } from '../../../../src/network/http/http-client.ts';
import type { HttpRequest } from '../../../../src/network/http/request.ts';
import { DEFAULT_CONFIG } from '../../../../src/server/config/config.ts';
import { HTTP_REQUESTS_PER_CONNECTION, MAX_BODY_DELTA_BYTES } from '../../../../src/server/limits.ts';
import { ConnectionHttp, openHttpClient } from '../../../../src/server/sessions/connection-http.ts';
import { waitFor } from '../../../support/wait-for.ts';

const REQUEST = {} as HttpRequest;

interface Delta {
  readonly requestId: string;
  readonly seq: number;
  readonly deltaBase64: string;
  readonly done: boolean;
  readonly error: string | null;
}

/** A connection whose web server sends what the test says, one piece for each that is asked for. */
function scene({ maxBodyBytes = 1_000 } = {}) {
  const deltas: Delta[] = [];
  const peer = {
    saturated: false,
    sendBulk: (message: Uint8Array) => {
      deltas.push(JSON.parse(Buffer.from(message).toString()).params as Delta);
    },
  };
  const state = { asked: 0, closed: false, pieces: 3, piece: 'abc' };
  const client = {
    send: async (_: HttpRequest, signal: AbortSignal): Promise<HttpResponse> => {
      signal.throwIfAborted();
      async function* body() {
        for (let count = 0; count < state.pieces; count++) {
          state.asked++;
          if (signal.aborted) throw new NetworkError('failed', (signal.reason as Error).message);
          yield Buffer.from(state.piece);
        }
      }
      return { status: 200, fields: [], body: body(), cancel: () => {} };
    },
    close: () => {
      state.closed = true;
    },
  };
  const http = new ConnectionHttp(peer, {
    client: async () => client as unknown as HttpClient,
    maxBodyBytes,
  });
  return { http, peer, state, deltas };
}

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('a streamed body', () => {
  test('is sent as numbered pieces once its answer is out', async () => {
    const { http, deltas, state } = scene();
    const { start } = await http.stream('r"1', REQUEST, null);
    await settled();
    expect(state.asked).toBe(0);
    start();
    await waitFor('the end', () => deltas.at(-1)?.done);
    expect(deltas.map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
    expect(deltas[0]).toEqual({ requestId: 'r"1', seq: 1, deltaBase64: 'YWJj', done: false, error: null });
    expect(deltas[3]).toEqual({ requestId: 'r"1', seq: 4, deltaBase64: '', done: true, error: null });
  });

  test('is cut into pieces of a megabyte, and an empty piece is none', async () => {
    const { http, deltas, state } = scene();
    state.pieces = 1;
    state.piece = 'x'.repeat(2 * MAX_BODY_DELTA_BYTES + 1);
    (await http.stream('large', REQUEST, null)).start();
    await waitFor('the end', () => deltas.at(-1)?.done);
    const lengths = deltas.map(({ deltaBase64 }) => Buffer.from(deltaBase64, 'base64').length);
    expect(lengths).toEqual([MAX_BODY_DELTA_BYTES, MAX_BODY_DELTA_BYTES, 1, 0]);
    state.piece = '';
    (await http.stream('empty', REQUEST, null)).start();
    await waitFor('the end', () => deltas.at(-1)?.requestId === 'empty');
    expect(deltas.at(-1)).toMatchObject({ seq: 1, done: true });
  });

  test('is not read while the client does not keep up', async () => {
    const { http, deltas, state, peer } = scene();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).start();
    await settled();
    expect(state.asked).toBe(1);
    http.setPaused(true);
    await settled();
    expect(state.asked).toBe(1);
    peer.saturated = false;
    http.setPaused(false);
    await waitFor('the end', () => deltas.at(-1)?.done);
  });

  test('is not read beyond its window', async () => {
    const { http, deltas, state } = scene();
    (await http.stream('r', REQUEST, 4)).start();
    await waitFor('the window to be full', () => state.asked === 2);
    await settled();
    expect(state.asked).toBe(2);
    http.consumed('somebody else', 100);
    await settled();
    expect(state.asked).toBe(2);
    http.consumed('r', 6);
    await waitFor('the end', () => deltas.at(-1)?.done);
  });

  test('has its id for itself until the end', async () => {
    const { http, deltas } = scene();
    const { start } = await http.stream('r', REQUEST, null);
    await expect(http.stream('r', REQUEST, null)).rejects.toMatchObject({
      kind: 'invalid',
      message: 'http/request streamResponse requestId `r` is already active',
    });
    expect((await http.fetch('r', REQUEST)).body.toString()).toBe('abcabcabc');
    start();
    await waitFor('the end', () => deltas.at(-1)?.done);
    (await http.stream('r', REQUEST, null)).start();
  });

  test('that is cancelled ends with an error, also while it waits for room', async () => {
    const { http, deltas, peer } = scene();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).start();
    await waitFor('a piece', () => deltas.length === 1);
    expect(http.cancel('r')).toBe(true);
    await waitFor('the end', () => deltas.at(-1)?.done);
    expect(deltas.at(-1)?.error).toContain('the request was cancelled');
    expect(http.cancel('r')).toBe(false);
  });

  test('ends with the connection, silently', async () => {
    const { http, deltas, peer, state } = scene();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).start();
    await waitFor('a piece', () => deltas.length === 1);
    http.dispose();
    await waitFor('the client to be closed', () => state.closed);
    await settled();
    expect(deltas).toHaveLength(1);
    await expect(http.fetch('r', REQUEST)).rejects.toThrow('the connection has ended');
  });
});

describe('a body that is gathered', () => {
  test('is given back to the budget when it is encoded', async () => {
    const { http } = scene({ maxBodyBytes: 12 });
    const first = await http.fetch('1', REQUEST);
    await expect(http.fetch('2', REQUEST)).rejects.toMatchObject({
      kind: 'limit',
      message: expect.stringContaining('maxHttpBodyBytes'),
    });
    first.release();
    first.release();
    const again = await http.fetch('3', REQUEST);
    expect(again.body.toString()).toBe('abcabcabc');
    await expect(http.fetch('4', REQUEST)).rejects.toMatchObject({ kind: 'limit' });
  });

  test('is not gathered while answers are not read', async () => {
    const { http, state } = scene();
    http.setHeld(true);
    const waiting = http.fetch('1', REQUEST);
    await settled();
    await settled();
    expect(state.asked).toBe(1);
    http.setHeld(false);
    expect((await waiting).body.toString()).toBe('abcabcabc');
  });

  test('fails when it is cancelled, or its answer is no longer wanted', async () => {
    const { http } = scene();
    http.setHeld(true);
    const cancelled = http.fetch('1', REQUEST);
    const unwanted = http.fetch('2', REQUEST);
    await settled();
    expect(http.cancel('1')).toBe(true);
    http.giveUp();
    await expect(cancelled).rejects.toThrow(
      'failed to read http/request response body: the request was cancelled',
    );
    await expect(unwanted).rejects.toThrow('the connection has ended');
  });
});

describe('when the client says nothing more', () => {
  test('what is under way is waited for, to the end of its body', async () => {
    const { http, deltas, peer } = scene();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).start();
    await waitFor('a piece', () => deltas.length === 1);
    let finished = false;
    const finish = http.finish().then(() => {
      finished = true;
    });
    await settled();
    expect(finished).toBe(false);
    peer.saturated = false;
    http.setPaused(false);
    await finish;
    expect(deltas.at(-1)).toMatchObject({ seq: 4, done: true, error: null });
    await http.finish();
  });

  test('a body is cut off where its window ends', async () => {
    const { http, deltas, state } = scene();
    (await http.stream('waits', REQUEST, 3)).start();
    await waitFor('the window to be full', () => state.asked === 1);
    await http.finish();
    (await http.stream('comes to wait', REQUEST, 6)).start();
    await http.finish();
    const ends = deltas.filter(({ done }) => done);
    const error = 'the window is used up, and the client has ended its side of the connection';
    expect(ends).toMatchObject([
      { requestId: 'waits', seq: 2, error },
      { requestId: 'comes to wait', seq: 3, error },
    ]);
  });

  test('what is given up says so', async () => {
    const { http, deltas, peer } = scene();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).start();
    await waitFor('a piece', () => deltas.length === 1);
    http.giveUp();
    await http.finish();
    expect(deltas.at(-1)).toMatchObject({ done: true, error: 'the connection has ended' });
  });
});

test('a connection has so many requests under way and no more', async () => {
  const { http } = scene();
  for (let count = 0; count < HTTP_REQUESTS_PER_CONNECTION; count++) {
    await http.stream(String(count), REQUEST, null);
  }
  const full = { kind: 'limit', message: expect.stringContaining(String(HTTP_REQUESTS_PER_CONNECTION)) };
  await expect(http.stream('more', REQUEST, null)).rejects.toMatchObject(full);
  await expect(http.fetch('more', REQUEST)).rejects.toMatchObject(full);
});

test('a configured list of hosts that cannot be read lets no request through', async () => {
  await expect(openHttpClient({ ...DEFAULT_CONFIG, httpAllowedHosts: 'a b' })).rejects.toThrow(StartError);
});
