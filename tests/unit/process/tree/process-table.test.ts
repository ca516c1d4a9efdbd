import { expect, test } from 'vitest';
import { listPids } from '../../../../src/process/tree/process-table.ts';

test('lists every process, and none without /proc', () => {
  expect(listPids()).toContain(process.pid);
  expect(listPids('/no/such/proc')).toEqual([]);
});
