import { describe, expect, test } from 'vitest';
import { StartError } from '../../../../src/listener/start-error.ts';
import { NetworkError } from '../../../../src/network/errors.ts';
import type { HttpClient, HttpResponse } from '../../../../src/network/http/http-client.ts';
import type { HttpRequest } from '../../../../src/network/http/request.ts';
import { FULL_ACCESS } from '../../../../src/server/auth/access.ts';
import { DEFAULT_CONFIG } from '../../../../src/server/config/config.ts';
import { HTTP_REQUESTS_PER_CONNECTION, MAX_BODY_DELTA_BYTES } from '../../../../src/server/limits.ts';
import { serve } from '../../../../src/server/serve.ts';
import {
  ConnectionHttp,
  hostPolicyOf,
  openHttpClient,
} from '../../../../src/server/sessions/connection-http.ts';
import { waitFor } from '../../../support/wait-for.ts';

const REQUEST = {} as HttpRequest;

interface Delta {
  readonly requestId: string;
  readonly seq: number;
  readonly deltaBase64: string;
  readonly done: boolean;
  readonly error: string | null;
}

/** A connection whose web server sends as many pieces as `state` says. `state.read` counts those that were read. */
function fixture({ maxBodyBytes = 1_000 } = {}) {
  const deltas: Delta[] = [];
  const peer = {
    saturated: false,
    sendBulk: (message: Uint8Array) => {
      deltas.push(JSON.parse(Buffer.from(message).toString()).params as Delta);
    },
  };
  const state = { read: 0, closed: false, pieces: 3, piece: 'abc' };
  const client = {
    send: async (_: HttpRequest, signal: AbortSignal): Promise<HttpResponse> => {
      signal.throwIfAborted();
      async function* body() {
        for (let count = 0; count < state.pieces; count++) {
          state.read++;
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
  test('is sent as numbered pieces after startBody is called', async () => {
    const { http, deltas, state } = fixture();
    const { startBody } = await http.stream('r"1', REQUEST, null);
    await settled();
    expect(state.read).toBe(0);
    startBody();
    await waitFor('the end', () => deltas.at(-1)?.done);
    expect(deltas.map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
    expect(deltas[0]).toEqual({ requestId: 'r"1', seq: 1, deltaBase64: 'YWJj', done: false, error: null });
    expect(deltas[3]).toEqual({ requestId: 'r"1', seq: 4, deltaBase64: '', done: true, error: null });
  });

  test('is cut into pieces of 1 MiB, and empty pieces are not sent', async () => {
    const { http, deltas, state } = fixture();
    state.pieces = 1;
    state.piece = 'x'.repeat(2 * MAX_BODY_DELTA_BYTES + 1);
    (await http.stream('large', REQUEST, null)).startBody();
    await waitFor('the end', () => deltas.at(-1)?.done);
    const lengths = deltas.map(({ deltaBase64 }) => Buffer.from(deltaBase64, 'base64').length);
    expect(lengths).toEqual([MAX_BODY_DELTA_BYTES, MAX_BODY_DELTA_BYTES, 1, 0]);
    state.piece = '';
    (await http.stream('empty', REQUEST, null)).startBody();
    await waitFor('the end', () => deltas.at(-1)?.requestId === 'empty');
    expect(deltas.at(-1)).toMatchObject({ seq: 1, done: true });
  });

  test('is not read while bulk data waits', async () => {
    const { http, deltas, state, peer } = fixture();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).startBody();
    await settled();
    expect(state.read).toBe(1);
    http.setPaused(true);
    await settled();
    expect(state.read).toBe(1);
    peer.saturated = false;
    http.setPaused(false);
    await waitFor('the end', () => deltas.at(-1)?.done);
  });

  test('is not read beyond its window', async () => {
    const { http, deltas, state } = fixture();
    (await http.stream('r', REQUEST, 4)).startBody();
    await waitFor('the window to be full', () => state.read === 2);
    await settled();
    expect(state.read).toBe(2);
    http.consumed('another request', 100);
    await settled();
    expect(state.read).toBe(2);
    http.consumed('r', 6);
    await waitFor('the end', () => deltas.at(-1)?.done);
  });

  test('keeps its id until the end', async () => {
    const { http, deltas } = fixture();
    const { startBody } = await http.stream('r', REQUEST, null);
    await expect(http.stream('r', REQUEST, null)).rejects.toMatchObject({
      kind: 'invalid',
      message: 'http/request streamResponse requestId `r` is already active',
    });
    expect((await http.fetch('r', REQUEST)).body.toString()).toBe('abcabcabc');
    startBody();
    await waitFor('the end', () => deltas.at(-1)?.done);
    (await http.stream('r', REQUEST, null)).startBody();
  });

  test('ends with an error when it is cancelled while paused', async () => {
    const { http, deltas, peer } = fixture();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).startBody();
    await waitFor('a piece', () => deltas.length === 1);
    expect(http.cancel('r')).toBe(true);
    await waitFor('the end', () => deltas.at(-1)?.done);
    expect(deltas.at(-1)?.error).toContain('the request was cancelled');
    expect(http.cancel('r')).toBe(false);
  });

  test('ends without a message when the connection is closed', async () => {
    const { http, deltas, peer, state } = fixture();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).startBody();
    await waitFor('a piece', () => deltas.length === 1);
    http.dispose();
    await waitFor('the client to be closed', () => state.closed);
    await settled();
    expect(deltas).toHaveLength(1);
    await expect(http.fetch('r', REQUEST)).rejects.toThrow('the connection has ended');
  });
});

describe('a whole body', () => {
  test('counts against the budget until it is released', async () => {
    const { http } = fixture({ maxBodyBytes: 12 });
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

  test('is not read while responses wait', async () => {
    const { http, state } = fixture();
    http.setHeld(true);
    const waiting = http.fetch('1', REQUEST);
    await settled();
    await settled();
    expect(state.read).toBe(1);
    http.setHeld(false);
    expect((await waiting).body.toString()).toBe('abcabcabc');
  });

  test('fails when it is cancelled or all requests are aborted', async () => {
    const { http } = fixture();
    http.setHeld(true);
    const cancelled = http.fetch('1', REQUEST);
    const aborted = http.fetch('2', REQUEST);
    await settled();
    expect(http.cancel('1')).toBe(true);
    http.abortAll();
    await expect(cancelled).rejects.toThrow(
      'failed to read http/request response body: the request was cancelled',
    );
    await expect(aborted).rejects.toThrow('the connection has ended');
  });
});

describe('when the client has ended its input', () => {
  test('waits for open requests until their bodies are sent', async () => {
    const { http, deltas, peer } = fixture();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).startBody();
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

  test('cuts a body off where its window ends', async () => {
    const { http, deltas, state } = fixture();
    (await http.stream('paused', REQUEST, 3)).startBody();
    await waitFor('the window to be full', () => state.read === 1);
    await http.finish();
    (await http.stream('paused later', REQUEST, 6)).startBody();
    await http.finish();
    const last = deltas.filter(({ done }) => done);
    const error = 'the window is used up, and the client has ended its side of the connection';
    expect(last).toMatchObject([
      { requestId: 'paused', seq: 2, error },
      { requestId: 'paused later', seq: 3, error },
    ]);
  });

  test('reports an aborted body', async () => {
    const { http, deltas, peer } = fixture();
    peer.saturated = true;
    (await http.stream('r', REQUEST, null)).startBody();
    await waitFor('a piece', () => deltas.length === 1);
    http.abortAll();
    await http.finish();
    expect(deltas.at(-1)).toMatchObject({ done: true, error: 'the connection has ended' });
  });
});

test('limits the open requests of a connection', async () => {
  const { http } = fixture();
  for (let count = 0; count < HTTP_REQUESTS_PER_CONNECTION; count++) {
    await http.stream(String(count), REQUEST, null);
  }
  const full = { kind: 'limit', message: expect.stringContaining(String(HTTP_REQUESTS_PER_CONNECTION)) };
  await expect(http.stream('more', REQUEST, null)).rejects.toMatchObject(full);
  await expect(http.fetch('more', REQUEST)).rejects.toMatchObject(full);
});

test('refuses every request when a list of hosts cannot be read', async () => {
  await expect(openHttpClient({ ...DEFAULT_CONFIG, httpAllowedHosts: 'a b' }, FULL_ACCESS)).rejects.toThrow(
    StartError,
  );
});

test.each([
  ['httpAllowedHosts', '--http-allowed-hosts'],
  ['httpDeniedHosts', '--http-denied-hosts'],
] as const)('the server does not start with an invalid %s and names the option', async (key, option) => {
  const start = serve({ ...DEFAULT_CONFIG, [key]: 'a.example, a b' });
  await expect(start).rejects.toThrow(StartError);
  await expect(start).rejects.toThrow(new RegExp(`^${option}: .*a b`));
});

test('the server does not start with a variable that is never sent', async () => {
  await expect(serve({ ...DEFAULT_CONFIG, httpHeaderVariables: 'A, OPENAI_API_KEY' })).rejects.toThrow(
    /^--http-header-variables: OPENAI_API_KEY is never sent/,
  );
});

test.each([',', ' ', ' , '])('the server does not start with %j as a list of hosts', async (list) => {
  for (const key of ['httpAllowedHosts', 'httpDeniedHosts'] as const) {
    await expect(serve({ ...DEFAULT_CONFIG, [key]: list })).rejects.toThrow(/the list has no hosts/);
  }
});

test('allows every host without lists', async () => {
  expect(await hostPolicyOf(DEFAULT_CONFIG)).toEqual({ allowed: null, denied: null, privateAddresses: true });
});
