import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { loadCachedCalls } from '../../../../src/native/cached-calls.ts';
import { CACHED_PROBES_PER_TURN } from '../../../../src/sandbox/limits.ts';
import { type FileProbe, localProbe } from '../../../../src/sandbox/mounts/file-probe.ts';
import { kernelCacheProbe } from '../../../../src/sandbox/mounts/kernel-cache-probe.ts';
import { openDescriptors } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

const { openPath } = await loadCachedCalls();
const slow: FileProbe = { ...localProbe, facts: vi.fn(localProbe.facts) };
let folder: string;

beforeEach(() => {
  // No sandbox mounts anything there. Below a covered directory the kernel cache has no entries.
  folder = mkdtempSync('/var/tmp/cached-probe-');
  mkdirSync(join(folder, 'directory'), { mode: 0o1750 });
  writeFileSync(join(folder, 'file'), 'content', { mode: 0o640 });
  symlinkSync('nowhere', join(folder, 'link'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

test.each(['directory', 'file', 'link', 'missing', 'missing/below'])(
  'gives the same facts for %s from the cache and from the disk',
  async (name) => {
    const path = nativePathOfText(join(folder, name));
    const expected = await localProbe.facts(path);
    const probe = kernelCacheProbe(slow, { openCached: openPath });
    const descriptors = openDescriptors();
    // The kernel may have to wait for a concurrent mount.
    await waitFor('an answer from memory', async () => {
      vi.mocked(slow.facts).mockClear();
      expect(await probe.facts(path)).toEqual(expected);
      return vi.mocked(slow.facts).mock.calls.length === 0;
    });
    expect(openDescriptors()).toBe(descriptors);
  },
);

test('reads from the disk what is not in the cache', async () => {
  const path = nativePathOfText(join(folder, 'file', 'below'));
  vi.mocked(slow.facts).mockClear();
  expect(await kernelCacheProbe(slow, { openCached: () => null }).facts(path)).toBeNull();
  expect(slow.facts).toHaveBeenCalledExactlyOnceWith(path);
});

test('limits the probes per event loop turn', async () => {
  const path = nativePathOfText(folder);
  const openCached = vi.fn(() => 'missing' as const);
  const probe = kernelCacheProbe({ ...localProbe, facts: async () => 'unreachable' }, { openCached });
  const looks = Array.from({ length: CACHED_PROBES_PER_TURN + 2 }, () => probe.facts(path));
  expect((await Promise.all(looks)).slice(-3)).toEqual([null, 'unreachable', 'unreachable']);
  await new Promise(setImmediate);
  expect(await probe.facts(path)).toBeNull();
  expect(openCached).toHaveBeenCalledTimes(CACHED_PROBES_PER_TURN + 1);
});
