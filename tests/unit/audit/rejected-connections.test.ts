import { expect, test } from 'vitest';
import type { AuditRecord } from '../../../src/audit/audit-log.ts';
import {
  REJECTED_CONNECTIONS_PER_WINDOW,
  REJECTED_CONNECTIONS_WINDOW_MS,
} from '../../../src/audit/limits.ts';
import { RejectedConnections } from '../../../src/audit/rejected-connections.ts';

test('records a limited number per window individually and the rest as a count', () => {
  let nowMs = 5;
  const records: AuditRecord[] = [];
  const append = async (record: AuditRecord) => void records.push(record);
  const rejected = new RejectedConnections({ append }, () => nowMs);
  const reject = (times: number) => {
    for (let time = 0; time < times; time++) rejected.record(401, 'no', '192.0.2.1');
  };
  const one = { event: 'connectionRejected', status: 401, reason: 'no', address: '192.0.2.1' };
  reject(REJECTED_CONNECTIONS_PER_WINDOW + 7);
  expect(records).toEqual(Array(REJECTED_CONNECTIONS_PER_WINDOW).fill(one));

  records.length = 0;
  nowMs += REJECTED_CONNECTIONS_WINDOW_MS;
  reject(1);
  expect(records).toEqual([{ event: 'connectionRejected', unrecorded: 7 }, one]);

  reject(REJECTED_CONNECTIONS_PER_WINDOW);
  records.length = 0;
  rejected.flushUnrecorded();
  rejected.flushUnrecorded();
  expect(records).toEqual([{ event: 'connectionRejected', unrecorded: 1 }]);
});
