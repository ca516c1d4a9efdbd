import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { ConnectionWatches } from '../../../../src/files/watch/connection-watches.ts';
import { WatchedCopy } from './watched-copy.ts';

const STORM = new URL('../../../fixtures/file-storm.mjs', import.meta.url).pathname;

test('10,000 files made, renamed and removed end in exactly what there is', { timeout: 60_000 }, async () => {
  const base = await mkdtemp(join(tmpdir(), 'watch-storm-'));
  const root = join(base, 'root');
  await mkdir(root);
  const copy = new WatchedCopy(root);
  await copy.look();
  const watches = new ConnectionWatches({ deliver: (_, batch) => copy.apply(batch), ready: () => true });
  try {
    await watches.watch('storm', copy.root, { recursive: true, exclude: [], debounceMs: 50 });
    await promisify(execFile)(process.execPath, [STORM, root, '10000']);
    await copy.settled(30_000);
    expect(copy.names.length).toBeGreaterThan(1000);
    expect(copy.misfits).toEqual([]);
  } finally {
    watches.dispose();
    await rm(base, { recursive: true, force: true });
  }
});

const QUEUE_EVENTS = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'latin1'));

test.skipIf(QUEUE_EVENTS > 20_000)(
  'a kernel queue that overflows is noticed and made up for',
  { timeout: 60_000 },
  async () => {
    const base = await mkdtemp(join(tmpdir(), 'watch-overflow-'));
    const copy = new WatchedCopy(base);
    await copy.look();
    const watches = new ConnectionWatches({ deliver: (_, batch) => copy.apply(batch), ready: () => true });
    try {
      await watches.watch('overflow', copy.root, { recursive: true, exclude: [], debounceMs: 50 });
      // Synchronously, so that nobody reads the queue meanwhile.
      for (let i = 0; i < QUEUE_EVENTS + 1000; i++) writeFileSync(join(base, `${i}`), '');
      await copy.settled(30_000);
      expect(copy.overflows).toBeGreaterThan(0);
      expect(copy.misfits).toEqual([]);
    } finally {
      watches.dispose();
      await rm(base, { recursive: true, force: true });
    }
  },
);
