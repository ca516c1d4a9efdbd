import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AuditLog, type AuditOptions } from '../../../src/audit/audit-log.ts';
import { AUDIT_PENDING_LOW_PRIORITY_RECORDS, AUDIT_STALL_MS } from '../../../src/audit/limits.ts';
import { verifyAuditLogs } from '../../../src/audit/verify.ts';
import { createLogger } from '../../../src/observability/log.ts';
import { waitFor } from '../../support/wait-for.ts';

let folder: string;
let path: string;
let logs: AuditLog[];
let logged: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'audit-log-'));
  path = join(folder, 'audit.jsonl');
  logs = [];
  logged = [];
});
afterEach(async () => {
  vi.restoreAllMocks();
  await Promise.all(logs.map((log) => log.close()));
  rmSync(folder, { recursive: true, force: true });
});

async function openLog(options: Partial<AuditOptions> = {}): Promise<AuditLog> {
  const log = createLogger('debug', (line) => logged.push(line));
  const audit = await AuditLog.open({ path, fsync: false, onError: 'stop', log, ...options });
  logs.push(audit);
  return audit;
}

const lines = (file = path) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
const events = (file = path) => lines(file).map(({ event }) => event);

function isWritable(log: AuditLog): boolean {
  try {
    log.requireWritable();
    return true;
  } catch {
    return false;
  }
}

/** Replaces `write` of every FileHandle until the mock is restored; all handles share one prototype. */
async function breakWrites(fail: (bytes: Uint8Array) => Promise<{ bytesWritten: number }>) {
  const handle = await open(path, 'r');
  const prototype = Object.getPrototypeOf(handle) as { write: typeof handle.write };
  await handle.close();
  const original = prototype.write;
  return vi.spyOn(prototype, 'write').mockImplementation(function (this: unknown, bytes: unknown) {
    return fail(bytes as Uint8Array).then((part) =>
      original.call(this as never, (bytes as Uint8Array).subarray(0, part.bytesWritten) as never),
    ) as never;
  });
}
/** The disk takes ten bytes, and then nothing. */
function fillDisk() {
  let calls = 0;
  return breakWrites(async () => {
    if (calls++ > 0) throw new Error('ENOSPC');
    return { bytesWritten: 10 };
  });
}
const diskFull = () => Promise.reject(new Error('ENOSPC: no space left on device'));

test('chains records from a random genesis in a file with mode 0600', async () => {
  const log = await openLog();
  await Promise.all([log.append({ event: 'a', n: 1 }), log.append({ event: 'b' })]);
  await log.append({ event: 'c' });
  const [opened, ...rest] = lines();
  expect(opened).toMatchObject({ seq: 0, event: 'opened', prev: null, pid: process.pid });
  expect(opened.genesis).toMatch(/^[0-9a-f]{64}$/);
  expect(rest.map(({ seq, event }) => [seq, event])).toEqual([
    [1, 'a'],
    [2, 'b'],
    [3, 'c'],
  ]);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(await verifyAuditLogs([path])).toMatchObject({ ok: true, lines: 4 });
});

test('resolves append after the record is in the file', async () => {
  const log = await openLog({ fsync: true });
  for (let n = 0; n < 20; n++) {
    await log.append({ event: 'x', n });
    expect(lines().at(-1)).toMatchObject({ event: 'x', n });
  }
});

test('continues the chain of an existing log', async () => {
  await (await openLog()).close();
  await (await openLog()).close();
  expect(events()).toEqual(['opened', 'closed', 'opened', 'closed']);
  expect(lines().map(({ seq }) => seq)).toEqual([0, 1, 2, 3]);
  expect(await verifyAuditLogs([path])).toMatchObject({ ok: true, lines: 4 });
});

test.each([
  ['in the middle of a later line', (text: string) => text.slice(0, -30)],
  ['in its first line', (text: string) => text.slice(0, 20)],
])('keeps a line that a crash cut off %s in the chain and starts a new line', async (_name, crash) => {
  await (await openLog()).close();
  writeFileSync(path, crash(readFileSync(path, 'utf8')));
  const log = await openLog();
  await log.append({ event: 'after' });
  await log.close();
  expect(await verifyAuditLogs([path])).toMatchObject({ ok: true });
  const complete = readFileSync(path, 'utf8').split('\n');
  expect(complete.at(-2)).toContain('"event":"closed"');
});

test.each([
  ['a file that is not an audit log', () => writeFileSync(path, 'hello\nworld\n'), /is not an audit record/],
  ['a device', () => (path = '/dev/null'), /not a regular file/],
  ['a directory', () => (path = folder), /EISDIR/],
  ['a path in a missing directory', () => (path = join(folder, 'none', 'x')), /ENOENT/],
])('refuses to open %s', async (_name, arrange, message) => {
  arrange();
  await expect(openLog()).rejects.toThrow(message);
});

test('continues the chain in the new file after a rotation', async () => {
  const log = await openLog();
  await log.append({ event: 'old' });
  await log.reopen();
  expect(events()).toEqual(['opened', 'old']);
  renameSync(path, `${path}.1`);
  await Promise.all([log.append({ event: 'during' }), log.reopen()]);
  await log.append({ event: 'new' });
  expect([...events(`${path}.1`), ...events()]).toEqual(['opened', 'old', 'during', 'continued', 'new']);
  expect(await verifyAuditLogs([`${path}.1`, path])).toMatchObject({ ok: true, lines: 5 });
  expect(await verifyAuditLogs([path])).toMatchObject({ ok: true, lines: 2 });
  expect(await verifyAuditLogs([path, `${path}.1`])).toMatchObject({ ok: false });
});

test('rotates once for two concurrent reopen calls', async () => {
  const log = await openLog();
  renameSync(path, `${path}.1`);
  await Promise.all([log.reopen(), log.reopen()]);
  await log.append({ event: 'new' });
  expect(events()).toEqual(['continued', 'new']);
  expect(await verifyAuditLogs([`${path}.1`, path])).toMatchObject({ ok: true, lines: 3 });
});

test('succeeds with a rotation after a failed one', async () => {
  const log = await openLog();
  renameSync(path, `${path}.1`);
  writeFileSync(path, readFileSync(`${path}.1`));
  await expect(log.reopen()).rejects.toThrow(/not empty/);
  unlinkSync(path);
  await log.reopen();
  expect(events()).toEqual(['continued']);
});

test('refuses new work while the disk is full and writes the pending records later', async () => {
  const log = await openLog();
  const writes = await breakWrites(diskFull);
  await expect(log.append({ event: 'start' })).rejects.toThrow(/audit log cannot be written \(ENOSPC/);
  expect(() => log.requireWritable()).toThrow(/new work is refused/);
  await expect(log.append({ event: 'exit' })).rejects.toThrow(/ENOSPC/);
  expect(events()).toEqual(['opened']);
  writes.mockRestore();
  await waitFor('the record of the exit', () => events().includes('exit'));
  expect(events()).toEqual(['opened', 'start', 'exit']);
  await waitFor('the log to be writable again', () => isWritable(log));
  expect(await verifyAuditLogs([path])).toMatchObject({ ok: true });
  expect(logged.map((line) => JSON.parse(line).level)).toEqual(['error', 'warn']);
});

test('writes the rest of a line after a partial write', async () => {
  const log = await openLog();
  const writes = await fillDisk();
  await expect(log.append({ event: 'start' })).rejects.toThrow();
  writes.mockRestore();
  await waitFor('the rest', () => readFileSync(path, 'utf8').endsWith('}\n') && events().includes('start'));
  expect(await verifyAuditLogs([path])).toMatchObject({ ok: true, lines: 2 });
});

test('a rotation removes the part of a record from the old file that the new file has whole', async () => {
  const log = await openLog();
  const writes = await fillDisk();
  await expect(log.append({ event: 'start' })).rejects.toThrow();
  renameSync(path, `${path}.1`);
  // The disk is full for a while longer. What the old file has stays until the new one has it too.
  await log.reopen();
  expect(readFileSync(`${path}.1`, 'utf8')).toMatch(/[^\n]$/);
  writes.mockRestore();
  await waitFor('the log to be writable again', () => isWritable(log));
  expect(events()).toEqual(['continued', 'start']);
  expect(await verifyAuditLogs([`${path}.1`, path])).toMatchObject({ ok: true, lines: 3 });
});

test('lets work go on with onError continue and writes the records later', async () => {
  const log = await openLog({ onError: 'continue' });
  const writes = await breakWrites(diskFull);
  await log.append({ event: 'start' });
  expect(() => log.requireWritable()).not.toThrow();
  await log.append({ event: 'exit' });
  writes.mockRestore();
  await waitFor('the record of the exit', () => events().includes('exit'));
  expect(events()).toEqual(['opened', 'start', 'exit']);
});

test('records and counts the lost records', async () => {
  const log = await openLog({ onError: 'continue' });
  const writes = await breakWrites(diskFull);
  await log.append({ event: 'first' });
  for (let n = 0; n < AUDIT_PENDING_LOW_PRIORITY_RECORDS + 3; n++) await log.append({ event: 'x' }, 'low');
  expect(log.counts.lost).toBe(3);
  writes.mockRestore();
  await waitFor('the line', () => events().includes('lost'));
  expect(lines().at(-1)).toMatchObject({ event: 'lost', records: 3 });
  expect(log.counts.lost).toBe(3);
});

test.each([
  ['writes to', () => appendFileSync(path, 'forged\n'), /another process changed/],
  ['empties', () => writeFileSync(path, ''), /another process changed/],
  ['removes', () => unlinkSync(path), /was removed/],
])('detects that another process %s the file', async (_name, tamper, message) => {
  const log = await openLog();
  tamper();
  await expect(log.append({ event: 'x' })).rejects.toThrow(message);
});

test('rejects records while the disk does not respond and writes them when it does', async () => {
  const log = await openLog();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let respond = () => {};
  const writes = await breakWrites(
    (bytes) =>
      new Promise((resolve) => {
        respond = () => resolve({ bytesWritten: bytes.length });
      }),
  );
  const start = log.append({ event: 'start' });
  start.catch(() => {});
  await vi.waitFor(() => expect(writes).toHaveBeenCalled());
  vi.advanceTimersByTime(AUDIT_STALL_MS);
  await expect(start).rejects.toThrow(/the disk does not respond/);
  await expect(log.append({ event: 'exit' })).rejects.toThrow(/the disk does not respond/);
  vi.useRealTimers();
  writes.mockRestore();
  respond();
  await waitFor('the record of the exit', () => events().includes('exit'));
  expect(events()).toEqual(['opened', 'start', 'exit']);
  await waitFor('the log to be writable again', () => isWritable(log));
});

test('closes while the disk is full', async () => {
  const log = await openLog();
  await breakWrites(diskFull);
  await log.append({ event: 'x' }).catch(() => {});
  await log.close();
  await expect(log.append({ event: 'late' })).resolves.toBeUndefined();
});
