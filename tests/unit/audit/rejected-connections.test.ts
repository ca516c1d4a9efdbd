import { expect, test } from 'vitest';
import type { AuditRecord } from '../../../src/audit/audit-log.ts';
import {
  REJECTED_CONNECTIONS_PER_SOURCE,
  REJECTED_CONNECTIONS_PER_WINDOW,
  REJECTED_CONNECTIONS_WINDOW_MS,
} from '../../../src/audit/limits.ts';
import { RejectedConnections } from '../../../src/audit/rejected-connections.ts';

const SOURCES: readonly [string, (source: string) => [string, string | null]][] = [
  ['token', (source) => ['192.0.2.1', source]],
  ['address', (source) => [source, null]],
];

test.each(SOURCES)('one %s cannot use up the records of the others', (_name, from) => {
  const records: AuditRecord[] = [];
  const append = async (record: AuditRecord) => void records.push(record);
  const rejected = new RejectedConnections({ append }, () => 5);
  for (let time = 0; time < 10_000; time++) rejected.record(429, 'too many', ...from('a'));
  rejected.record(401, 'no', ...from('b'));
  expect(records).toHaveLength(REJECTED_CONNECTIONS_PER_SOURCE + 2);
  expect(records.slice(-2)).toMatchObject([
    { unrecorded: 10_000 - REJECTED_CONNECTIONS_PER_SOURCE },
    { reason: 'no' },
  ]);
});

test('records a limited number per window individually and the rest as a count', () => {
  let [nowMs, addresses] = [5, 0];
  const records: AuditRecord[] = [];
  const append = async (record: AuditRecord) => void records.push(record);
  const rejected = new RejectedConnections({ append }, () => nowMs);
  const reject = (times: number) => {
    for (let time = 0; time < times; time++) rejected.record(401, 'no', `address ${++addresses}`);
  };
  const one = { event: 'connectionRejected', status: 401, reason: 'no' };
  reject(REJECTED_CONNECTIONS_PER_WINDOW + 7);
  expect(records).toMatchObject(Array(REJECTED_CONNECTIONS_PER_WINDOW).fill(one));

  records.length = 0;
  nowMs += REJECTED_CONNECTIONS_WINDOW_MS;
  reject(1);
  expect(records).toMatchObject([{ event: 'connectionRejected', unrecorded: 7 }, one]);

  reject(REJECTED_CONNECTIONS_PER_WINDOW);
  records.length = 0;
  rejected.flushUnrecorded();
  rejected.flushUnrecorded();
  expect(records).toEqual([{ event: 'connectionRejected', unrecorded: 1 }]);
});
