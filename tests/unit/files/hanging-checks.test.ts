import { afterEach, expect, test, vi } from 'vitest';
import { Semaphore } from '../../../src/base/semaphore.ts';
import { SEARCH_CONCURRENCY } from '../../../src/files/limits.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';
import { ContentSearch } from '../../../src/files/search/content-search.ts';
import { MissingWatch } from '../../../src/files/watch/watch-missing.ts';
import { LossyQueue } from './watch/watched-copy.ts';

/** System calls that never return, as on a dead mount. */
const hanging = vi.hoisted(() => [] as string[]);

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>();
  const hang = (look: typeof real.stat) => (path: string, options?: object) => {
    if (!path.startsWith('/dead')) return look(path, options);
    hanging.push(path);
    return new Promise(() => {});
  };
  return { ...real, stat: hang(real.stat), lstat: hang(real.lstat) };
});

afterEach(() => {
  hanging.length = 0;
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('searches of a dead mount occupy few threads and return in time', async () => {
  const search = new ContentSearch('');
  const query = { path: nativePathOfText('/dead/x'), pattern: 'x', timeoutMs: 200 };
  const { signal } = new AbortController();
  const searches = Array.from({ length: 20 }, () => search.search(query, signal));
  for (const { truncated } of await Promise.all(searches)) expect(truncated).toBe('time');
  expect(hanging).toHaveLength(SEARCH_CONCURRENCY);
});

test('watches for missing files on a dead mount occupy at most as many threads as there are slots', async () => {
  const watch = new MissingWatch(new Semaphore(2), () => Promise.resolve(new LossyQueue()));
  const answers: boolean[] = [];
  for (let id = 1; id <= 20; id++) {
    void watch
      .arm(id, [nativePathOfText(`/dead${id}`)], null, () => {})
      .then((watching) => answers.push(watching));
    await turn();
  }
  expect(hanging).toHaveLength(2);
  watch.dispose();
  await turn();
  expect(answers).toEqual(Array.from({ length: 18 }, () => false));
});
