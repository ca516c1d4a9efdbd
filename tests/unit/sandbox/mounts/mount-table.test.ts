import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { MountTable } from '../../../../src/sandbox/mounts/mount-table.ts';
import { openDescriptors } from '../../../support/children.ts';

test.runIf(process.getuid?.() === 0)('reports a mount and an unmount once each', () => {
  const table = new MountTable(loadLibc());
  const directory = mkdtempSync(join(tmpdir(), 'mount-table-'));
  try {
    expect([table.watch(), table.watch(), table.changed()]).toEqual([true, true, false]);
    execFileSync('mount', ['-t', 'tmpfs', 'mount-table', directory]);
    expect([table.changed(), table.changed()]).toEqual([true, false]);
    execFileSync('umount', [directory]);
    expect([table.changed(), table.changed()]).toEqual([true, false]);
  } finally {
    table.unwatch();
    rmdirSync(directory);
  }
});

test('reports a change and holds no descriptor while not watching', () => {
  const table = new MountTable(loadLibc());
  const before = openDescriptors();
  expect(table.changed()).toBe(true);
  table.watch();
  expect([table.changed(), openDescriptors()]).toEqual([false, before + 1]);
  table.unwatch();
  table.unwatch();
  expect([table.changed(), openDescriptors()]).toEqual([true, before]);
});
