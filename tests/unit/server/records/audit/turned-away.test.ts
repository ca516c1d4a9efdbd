import { expect, test } from 'vitest';
import type { AuditRecord } from '../../../../../src/server/records/audit/audit-log.ts';
import {
  AUDIT_TURNED_AWAY_MS,
  AUDIT_TURNED_AWAY_RECORDS,
} from '../../../../../src/server/records/audit/limits.ts';
import { TurnedAway } from '../../../../../src/server/records/audit/turned-away.ts';

test('a flood of strangers is counted rather than written, and the count is told', () => {
  let nowMs = 5;
  const records: AuditRecord[] = [];
  const append = async (record: AuditRecord) => void records.push(record);
  const turnedAway = new TurnedAway({ append }, () => nowMs);
  const knock = (times: number) => {
    for (let time = 0; time < times; time++) turnedAway.record(401, 'no', '192.0.2.1');
  };
  const one = { event: 'turnedAway', status: 401, reason: 'no', address: '192.0.2.1' };
  knock(AUDIT_TURNED_AWAY_RECORDS + 7);
  expect(records).toEqual(Array(AUDIT_TURNED_AWAY_RECORDS).fill(one));

  records.length = 0;
  nowMs += AUDIT_TURNED_AWAY_MS;
  knock(1);
  expect(records).toEqual([{ event: 'turnedAway', unrecorded: 7 }, one]);

  knock(AUDIT_TURNED_AWAY_RECORDS);
  records.length = 0;
  turnedAway.tellUnrecorded();
  turnedAway.tellUnrecorded();
  expect(records).toEqual([{ event: 'turnedAway', unrecorded: 1 }]);
});
