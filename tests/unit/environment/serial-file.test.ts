import { expect, test } from 'vitest';
import { SerialFile } from '../../../src/environment/serial-file.ts';
import type { OpenFile } from '../../../src/files/file-system.ts';

/** A file whose operations end when the test says so. */
function setUp() {
  const log: string[] = [];
  const ends: (() => void)[] = [];
  const operation = (name: string) => {
    log.push(name);
    return new Promise<never>((resolve) => {
      ends.push(() => {
        log.push(`${name} done`);
        resolve(undefined as never);
      });
    });
  };
  const file: OpenFile = {
    read: () => operation('read'),
    write: () => operation('write'),
    close: () => operation('close'),
    discard: () => operation('discard'),
  };
  const endNext = async () => {
    await settled();
    ends.shift()!();
    await settled();
  };
  return { file: new SerialFile(file), log, endNext };
}

const settled = () => new Promise(setImmediate);

test('a file is not closed under an operation, and nobody waits for that', async () => {
  const { file, log, endNext } = setUp();
  void file.write(0, Uint8Array.of(1));
  await settled();
  await file.discard();
  expect(log).toEqual(['write']);
  await endNext();
  expect(log).toEqual(['write', 'write done', 'discard']);
});

test('a file at rest is gone when it is discarded', async () => {
  const { file, log, endNext } = setUp();
  const discarded = file.discard().then(() => log.push('told'));
  await endNext();
  await discarded;
  expect(log).toEqual(['discard', 'discard done', 'told']);
});

test('operations keep their order, and one that fails holds nobody up', async () => {
  const { file, log, endNext } = setUp();
  const failing = new SerialFile({
    read: () => Promise.reject(new Error('no')),
    write: () => file.write(0, Uint8Array.of(1)),
    close: () => file.close(),
    discard: () => Promise.reject(new Error('no')),
  });
  const read = expect(failing.read(0, 1)).rejects.toThrow('no');
  const written = failing.write(0, Uint8Array.of(1));
  const closed = failing.close();
  await read;
  await endNext();
  await written;
  await endNext();
  await closed;
  expect(log).toEqual(['write', 'write done', 'close', 'close done']);
  await failing.discard();
});
