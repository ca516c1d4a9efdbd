import { expect, test } from 'vitest';
import { listPids } from '../../../../src/process/tree/process-table.ts';

test('every process is listed, and none where there is no /proc', () => {
  expect(listPids()).toContain(process.pid);
  expect(listPids('/no/such/proc')).toEqual([]);
});
