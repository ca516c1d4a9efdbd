import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { ConnectionWatches } from '../../../../src/files/watch/connection-watches.ts';
import { WatchedCopy } from './watched-copy.ts';

/** Tens of thousands of files take seconds, and on a busy machine minutes. */
const SETTLE_TIMEOUT_MS = 120_000;
const TEST_TIMEOUT_MS = 240_000;

const STORM = new URL('../../../fixtures/file-storm.mjs', import.meta.url).pathname;

test('creating, renaming and removing 10,000 files ends with the exact tree', {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const base = await mkdtemp(join(tmpdir(), 'watch-storm-'));
  const root = join(base, 'root');
  await mkdir(root);
  const copy = new WatchedCopy(root);
  await copy.look();
  const watches = new ConnectionWatches({ deliver: (_, batch) => copy.apply(batch), ready: () => true });
  try {
    await watches.watch('storm', copy.root, { recursive: true, exclude: [], debounceMs: 50 });
    await promisify(execFile)(process.execPath, [STORM, root, '10000']);
    await copy.settled(SETTLE_TIMEOUT_MS);
    expect(copy.names.length).toBeGreaterThan(1000);
    expect(copy.contradictions).toEqual([]);
  } finally {
    watches.dispose();
    await rm(base, { recursive: true, force: true });
  }
});

const QUEUE_EVENTS = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'latin1'));

test.skipIf(QUEUE_EVENTS > 20_000)(
  'detects an overflow of the kernel queue and recovers',
  { timeout: TEST_TIMEOUT_MS },
  async () => {
    const base = await mkdtemp(join(tmpdir(), 'watch-overflow-'));
    const copy = new WatchedCopy(base);
    await copy.look();
    const watches = new ConnectionWatches({ deliver: (_, batch) => copy.apply(batch), ready: () => true });
    try {
      await watches.watch('overflow', copy.root, { recursive: true, exclude: [], debounceMs: 50 });
      // Synchronously, so that the event loop does not read the queue meanwhile.
      for (let i = 0; i < QUEUE_EVENTS + 1000; i++) writeFileSync(join(base, `${i}`), '');
      await copy.settled(SETTLE_TIMEOUT_MS);
      expect(copy.overflows).toBeGreaterThan(0);
      expect(copy.contradictions).toEqual([]);
    } finally {
      watches.dispose();
      await rm(base, { recursive: true, force: true });
    }
  },
);
