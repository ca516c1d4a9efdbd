import { expect, test } from 'vitest';
import { SMALL_WRITE_BYTES, WRITE_SLOT_PATH_BYTES } from '../../../../src/files/limits.ts';
import { nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { SharedWriteSlot, type WriteJob } from '../../../../src/files/thread/shared-write-slot.ts';

const job = (path: string, bytes: Uint8Array): WriteJob => ({ path: nativePathOfBytes(path), bytes });
const SMALL = job('/tmp/\xff', Buffer.from('content'));

/** Both sides of a slot. */
function slots(): [SharedWriteSlot, SharedWriteSlot] {
  const slot = new SharedWriteSlot();
  return [slot, new SharedWriteSlot(slot.memory)];
}

test('the other side receives each write once', () => {
  const [server, thread] = slots();
  const largest = job(
    'p'.repeat(WRITE_SLOT_PATH_BYTES),
    Uint8Array.from({ length: SMALL_WRITE_BYTES }, (_, index) => index % 251),
  );
  for (const given of [SMALL, largest, job('/', new Uint8Array(0)), SMALL]) {
    expect(server.write(given, 0)).toBe(false);
    const found = thread.next() as WriteJob;
    expect(found.path).toBe(given.path);
    expect(Buffer.compare(found.bytes, given.bytes)).toBe(0);
    server.notifyMessage();
    expect(thread.next()).toBe('message');
  }
});

test('rejects a write that is too large', () => {
  const bytes = new Uint8Array(SMALL_WRITE_BYTES);
  const path = 'p'.repeat(WRITE_SLOT_PATH_BYTES);
  expect(SharedWriteSlot.fits(job(path, bytes))).toBe(true);
  expect(SharedWriteSlot.fits(job(`${path}p`, bytes))).toBe(false);
  expect(SharedWriteSlot.fits(job(path, new Uint8Array(SMALL_WRITE_BYTES + 1)))).toBe(false);
});

test('a caller that no longer waits is not notified', () => {
  const [server, thread] = slots();
  for (const waitMs of [0, 0.1]) {
    expect(server.write(SMALL, waitMs)).toBe(false);
    thread.next();
    expect(thread.complete('written')).toBe(false);
  }
});
