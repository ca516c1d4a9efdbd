import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { AUDIT_VERIFY_BLOCK_BYTES } from '../../../src/audit/limits.ts';
import { verifyAuditLogs } from '../../../src/audit/verify.ts';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'audit-verify-'));
  path = join(folder, 'log');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

function chain(count: number, padding = ''): string[] {
  const lines: string[] = [];
  for (let seq = 0; seq < count; seq++) {
    const prev = seq === 0 ? null : sha256(lines[seq - 1]!);
    lines.push(JSON.stringify({ seq, event: 'x', padding, prev }));
  }
  return lines;
}

const verify = (lines: readonly string[], end = '\n') => {
  writeFileSync(path, lines.join('\n') + end);
  return verifyAuditLogs([path]);
};

test('accepts an unbroken chain and returns the hash of its last line', async () => {
  const lines = chain(5);
  expect(await verify(lines)).toEqual({ ok: true, lines: 5, head: sha256(lines[4]!) });
});

test('accepts lines that cross block boundaries', async () => {
  const lines = chain(40, 'é'.repeat(50_000));
  expect(lines.join('\n').length).toBeGreaterThan(AUDIT_VERIFY_BLOCK_BYTES);
  expect(await verify(lines)).toMatchObject({ ok: true, lines: 40 });
});

test.each<[string, (lines: string[]) => string[], number]>([
  ['a changed line', (lines) => lines.with(2, lines[2]!.replace('"x"', '"y"')), 4],
  ['a removed line', (lines) => lines.toSpliced(2, 1), 3],
  ['an inserted line', (lines) => lines.toSpliced(2, 0, lines[1]!), 3],
  ['swapped lines', (lines) => [lines[0]!, lines[2]!, lines[1]!, lines[3]!, lines[4]!], 2],
  ['a missing first line', (lines) => lines.slice(1), 1],
  ['a line that is not a record', (lines) => lines.with(2, 'hello'), 4],
  ['a last line that is not a record', (lines) => lines.with(4, '{}'), 5],
  [
    'a gap in the sequence numbers',
    (lines) => [lines[0]!, JSON.stringify({ seq: 7, event: 'x', prev: sha256(lines[0]!) })],
    2,
  ],
])('detects %s', async (_name, tamper, line) => {
  expect(await verify(tamper(chain(5)))).toEqual({
    ok: false,
    file: path,
    line,
    problem: expect.any(String),
  });
});

test('rejects a last line without its newline, and an empty file', async () => {
  expect(await verify(chain(3), '')).toMatchObject({ ok: false, line: 3, problem: 'it is incomplete' });
  expect(await verify([], '')).toMatchObject({ ok: false, problem: 'the file is empty' });
});

test('returns another hash when the last line was changed, which the chain itself cannot detect', async () => {
  const lines = chain(3);
  const before = await verify(lines);
  const after = await verify(lines.with(2, lines[2]!.replace('"x"', '"y"')));
  expect(after.ok).toBe(true);
  expect(after).not.toEqual(before);
});

test('stops reading at a line that is too long', async () => {
  writeFileSync(path, 'x'.repeat(4 * AUDIT_VERIFY_BLOCK_BYTES));
  expect(await verifyAuditLogs([path])).toMatchObject({ ok: false, line: 1 });
});
