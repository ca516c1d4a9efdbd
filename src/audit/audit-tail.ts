import { open } from 'node:fs/promises';
import { isObject } from '../base/is-object.ts';
import { AUDIT_TAIL_BYTES, AUDIT_TAIL_RECORDS } from './limits.ts';

/** Reads the latest records of an audit log, the oldest first. Lines that are no records are left out. Rejects with the system's error. */
export async function readAuditTail(path: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const start = Math.max(0, size - AUDIT_TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
    const lines = buffer.subarray(0, bytesRead).toString().split('\n');
    // The first line may have begun before.
    const whole = start === 0 ? lines : lines.slice(1);
    return whole.flatMap(parseRecord).slice(-AUDIT_TAIL_RECORDS);
  } finally {
    await file.close();
  }
}

function parseRecord(line: string): Readonly<Record<string, unknown>>[] {
  try {
    const record: unknown = JSON.parse(line);
    return isObject(record) ? [record] : [];
  } catch {
    return [];
  }
}
