import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { readAuditTail } from '../../../src/audit/audit-tail.ts';
import { AUDIT_TAIL_BYTES, AUDIT_TAIL_RECORDS } from '../../../src/audit/limits.ts';

const folder = mkdtempSync(join(tmpdir(), 'audit-tail-'));
const file = join(folder, 'audit.jsonl');
afterAll(() => rmSync(folder, { recursive: true }));

const lines = (count: number, text = '') =>
  Array.from({ length: count }, (_, seq) => `${JSON.stringify({ seq, text })}\n`).join('');

test('reads all records of a short log, and leaves out a line that is none', async () => {
  writeFileSync(file, `${lines(2)}{"torn\n[]\n`);
  expect(await readAuditTail(file)).toEqual([
    { seq: 0, text: '' },
    { seq: 1, text: '' },
  ]);
});

test('reads the latest records of a long log', async () => {
  writeFileSync(file, lines(AUDIT_TAIL_RECORDS + 50));
  const records = await readAuditTail(file);
  expect([records.length, records[0]?.seq]).toEqual([AUDIT_TAIL_RECORDS, 50]);
});

test('reads a bounded part of a log with large records', async () => {
  const count = 100;
  writeFileSync(file, lines(count, 'x'.repeat(AUDIT_TAIL_BYTES / 10)));
  const records = await readAuditTail(file);
  expect([records.length, records.at(-1)?.seq]).toEqual([9, count - 1]);
});
