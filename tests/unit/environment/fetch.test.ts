import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import type { CallOptions, ExecutorHttp, StreamingHttpResponse } from '../../../src/client/backend.ts';
import { fetchOver } from '../../../src/environment/fetch.ts';

/** An executor whose responses have one piece and then stay open until they are cancelled. */
function fixture(answer: Partial<StreamingHttpResponse> = {}) {
  const seen = { cancelled: 0, aborted: 0 };
  const http: ExecutorHttp = {
    request: () => Promise.reject(new Error('not used')),
    stream: async (_, { signal }: CallOptions = {}) => {
      signal?.addEventListener('abort', () => seen.aborted++);
      let end = () => {};
      async function* body() {
        yield Buffer.from('begun');
        await new Promise<void>((resolve) => {
          end = resolve;
        });
      }
      const cancel = () => {
        seen.cancelled++;
        end();
      };
      return { status: 200, headers: [], body: body(), cancel, ...answer };
    },
  };
  return { fetch: fetchOver(http), seen };
}

test('an abort ends a body immediately, with or without a reader', async () => {
  const { fetch, seen } = fixture();
  const [unread, read] = [new AbortController(), new AbortController()];
  const first = await fetch('http://a/', { signal: unread.signal });
  unread.abort(new Error('mine'));
  expect(seen.cancelled).toBe(1);
  await expect(first.text()).rejects.toThrow('mine');
  const second = await fetch('http://a/', { signal: read.signal });
  const text = second.text();
  read.abort(new Error('mine too'));
  await expect(text).rejects.toThrow('mine too');
  expect(seen.cancelled).toBe(2);
});

test('an abort reaches the executor long after the response headers', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const { fetch, seen } = fixture();
  const owner = new AbortController();
  const { body } = await fetch('http://a/', { signal: owner.signal });
  const reader = body!.getReader();
  await reader.read();
  for (let turn = 0; turn < 3; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
  }
  owner.abort(new Error('mine'));
  await expect(reader.read()).rejects.toThrow('mine');
  expect(seen).toEqual({ cancelled: 1, aborted: 1 });
});

test('cancels a response that cannot be represented', async () => {
  const { fetch, seen } = fixture({ headers: [{ name: 'no token', value: 'x' }] });
  await expect(fetch('http://a/')).rejects.toThrow('fetch failed');
  expect(seen.cancelled).toBe(1);
});
