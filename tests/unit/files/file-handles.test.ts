import { describe, expect, test } from 'vitest';
import { Errno, systemError } from '../../../src/files/errors.ts';
import { FileHandles } from '../../../src/files/file-handles.ts';
import type { OpenFile } from '../../../src/files/file-system.ts';

/** A file in memory that records the operations on it. They can be delayed or made to fail. */
class FakeFile implements OpenFile {
  readonly log: string[] = [];
  content = Buffer.from('hello');
  gate: Promise<void> = Promise.resolve();
  failure: Error | null = null;

  async read(position: number, length: number): Promise<Buffer> {
    await this.#step(`read ${position}`);
    return this.content.subarray(position, position + length);
  }

  async write(position: number, bytes: Uint8Array): Promise<void> {
    await this.#step(`write ${position}+${bytes.length}`);
  }

  close(): Promise<void> {
    return this.#step('close');
  }

  async discard(): Promise<void> {
    this.log.push('discard');
  }

  async #step(name: string): Promise<void> {
    this.log.push(`${name} begins`);
    await this.gate;
    if (this.failure !== null) throw this.failure;
    this.log.push(name);
  }
}

function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

async function failureOf(promise: Promise<unknown>): Promise<{ kind: string; message: string }> {
  return promise.then(
    () => expect.unreachable('it should have failed'),
    ({ kind, message }: { kind: string; message: string }) => ({ kind, message }),
  );
}

const unknown = (id: string) => ({ kind: 'notFound', message: `unknown file handle \`${id}\`` });
const must = (message: string) => ({ kind: 'refused', message });
const ENDED = must('the connection of the file handle has ended');
const TOO_MANY = must('at most 128 file handles may be open per connection');

async function withOne(): Promise<{ handles: FileHandles; file: FakeFile }> {
  const handles = new FileHandles();
  const file = new FakeFile();
  await handles.open('h', async () => file);
  return { handles, file };
}

async function fill(handles: FileHandles): Promise<FakeFile[]> {
  const files = Array.from({ length: 128 }, () => new FakeFile());
  for (const [index, file] of files.entries()) await handles.open(`f${index}`, async () => file);
  return files;
}

describe('handle ids', () => {
  test('are limited to 32 bytes in every operation, and may be empty', async () => {
    const handles = new FileHandles();
    const long = must('file handle ID must not exceed 32 bytes');
    const id = 'é'.repeat(17);
    expect(await failureOf(handles.open(id, () => expect.unreachable('it is not opened')))).toEqual(long);
    expect(await failureOf(handles.readBlock(id, 0, 0))).toEqual(long);
    expect(await failureOf(handles.writeBlock(id, 0, Buffer.alloc(0)))).toEqual(long);
    expect(await failureOf(handles.close(id))).toEqual(long);
    for (const fits of ['', 'é'.repeat(16)]) {
      await handles.open(fits, async () => new FakeFile());
      expect(await handles.readBlock(fits, 1, 2)).toEqual({ bytes: Buffer.from('el'), eof: false });
    }
  });

  test('are rejected while in use, without opening a second file', async () => {
    const { handles, file } = await withOne();
    const taken = must('file handle `h` already exists');
    expect(await failureOf(handles.open('h', () => expect.unreachable('it is not opened')))).toEqual(taken);
    expect((await handles.readBlock('h', 0, 5)).bytes.toString()).toBe('hello');
    expect(file.log).not.toContain('discard');
  });

  test('are unknown before the open, after the close and after a failed open', async () => {
    const handles = new FileHandles();
    const absent = systemError(Errno.ENOENT);
    expect(await failureOf(handles.readBlock('h', 0, 1))).toEqual(unknown('h'));
    expect(await failureOf(handles.open('h', () => Promise.reject(absent)))).toMatchObject({
      kind: 'notFound',
    });
    expect(await failureOf(handles.writeBlock('h', 0, Buffer.alloc(1)))).toEqual(unknown('h'));
    await handles.open('h', async () => new FakeFile());
    await handles.close('h');
    expect(await failureOf(handles.readBlock('h', 0, 1))).toEqual(unknown('h'));
    await handles.close('h');
  });

  test('belong to one connection', async () => {
    await withOne();
    expect(await failureOf(new FileHandles().readBlock('h', 0, 1))).toEqual(unknown('h'));
  });
});

describe('number of handles', () => {
  test('is limited to 128 including pending opens; an id in use is reported first', async () => {
    const handles = new FileHandles();
    const slow = gate();
    const opens = Array.from({ length: 128 }, (_, index) =>
      handles.open(`f${index}`, async () => {
        await slow.opened;
        return new FakeFile();
      }),
    );
    const more = failureOf(handles.open('more', () => expect.unreachable('it is not opened')));
    expect(await more).toEqual(TOO_MANY);
    slow.open();
    await Promise.all(opens);
    expect(await failureOf(handles.open('f5', async () => new FakeFile()))).toEqual(
      must('file handle `f5` already exists'),
    );
  });

  test('decreases when a handle is closed, a read fails or an open fails', async () => {
    const handles = new FileHandles();
    const files = await fill(handles);
    const reopen = (id: string) => handles.open(id, async () => new FakeFile());
    await handles.close('f0');
    await reopen('a');
    expect(await failureOf(reopen('b'))).toEqual(TOO_MANY);
    files[1]!.failure = systemError(Errno.EIO);
    await failureOf(handles.readBlock('f1', 0, 1));
    await failureOf(handles.open('b', () => Promise.reject(systemError(Errno.ENOENT))));
    await reopen('b');
    expect(await failureOf(reopen('c'))).toEqual(TOO_MANY);
    files[2]!.failure = systemError(Errno.EIO);
    await failureOf(handles.close('f2'));
    await reopen('c');
    expect(await failureOf(reopen('d'))).toEqual(TOO_MANY);
  });

  test('takes into account a pending close that came before the open', async () => {
    const handles = new FileHandles();
    const files = await fill(handles);
    const slow = gate();
    files[7]!.gate = slow.opened;
    const reading = handles.readBlock('f7', 0, 1);
    const closing = handles.close('f7');
    const opening = handles.open('next', async () => new FakeFile());
    slow.open();
    await Promise.all([reading, closing, opening]);
  });

  test('does not wait for a close that waits for the open', async () => {
    const handles = new FileHandles();
    await fill(handles);
    const opening = failureOf(handles.open('next', async () => new FakeFile()));
    const closing = handles.close('next');
    expect(await opening).toEqual(TOO_MANY);
    await closing;
  });
});

describe('blocks', () => {
  test('report eof only when fewer bytes than requested are read', async () => {
    const { handles } = await withOne();
    expect(await handles.readBlock('h', 0, 5)).toEqual({ bytes: Buffer.from('hello'), eof: false });
    expect(await handles.readBlock('h', 3, 5)).toEqual({ bytes: Buffer.from('lo'), eof: true });
    expect(await handles.readBlock('h', 5, 1)).toEqual({ bytes: Buffer.alloc(0), eof: true });
  });

  test.each([0, 1024 * 1024 + 1])('of %d bytes are rejected, also for an unknown handle', async (length) => {
    const { handles, file } = await withOne();
    const readRule = must('file read block length must be between 1 and 1048576');
    const writeRule = must('file write block length must be between 1 and 1048576');
    for (const id of ['h', 'other']) {
      expect(await failureOf(handles.readBlock(id, 0, length))).toEqual(readRule);
      expect(await failureOf(handles.writeBlock(id, 0, Buffer.alloc(length)))).toEqual(writeRule);
    }
    expect(file.log).toEqual([]);
    await handles.readBlock('h', 0, 1024 * 1024);
    await handles.writeBlock('h', 0, Buffer.alloc(1024 * 1024));
  });

  test('are written only at offsets that are exact and addressable', async () => {
    const { handles, file } = await withOne();
    const beyond = must('file write range exceeds the signed 64-bit file offset limit');
    const inexact = { kind: 'refused', message: expect.stringContaining('too large to be exact') };
    const write = (offset: number, length = 1) => handles.writeBlock('h', offset, Buffer.alloc(length));
    for (const offset of [2 ** 63, 2 ** 64]) {
      expect(await failureOf(write(offset))).toEqual(beyond);
      expect(await failureOf(handles.writeBlock('other', offset, Buffer.alloc(1)))).toEqual(beyond);
    }
    expect(await failureOf(write(2 ** 63 - 1024, 1024))).toEqual(beyond);
    expect(await failureOf(write(2 ** 63 - 1024, 1023))).toEqual(inexact);
    expect(await failureOf(write(2 ** 53))).toEqual(inexact);
    expect(await failureOf(write(2 ** 53 - 2, 2))).toEqual(inexact);
    expect(file.log).toEqual([]);
    await write(2 ** 53 - 2);
  });

  test('close the handle when the system fails a read, so that queued reads fail', async () => {
    const { handles, file } = await withOne();
    file.failure = systemError(Errno.EIO);
    const first = failureOf(handles.readBlock('h', 0, 1));
    const second = failureOf(handles.readBlock('h', 0, 1));
    expect(await first).toEqual({ kind: 'failed', message: 'I/O error (os error 5)' });
    expect(await second).toEqual(unknown('h'));
    expect(file.log).toEqual(['read 0 begins', 'discard']);
  });

  test('leave the handle open after a rejected read or a failed write', async () => {
    const { handles, file } = await withOne();
    file.failure = systemError(Errno.EBADF);
    expect(await failureOf(handles.writeBlock('h', 0, Buffer.alloc(1)))).toMatchObject({ kind: 'failed' });
    file.failure = Object.assign(new Error('no'), { kind: 'refused', errno: null });
    expect(await failureOf(handles.readBlock('h', 0, 1))).toMatchObject({ message: 'no' });
    file.failure = null;
    await handles.readBlock('h', 0, 1);
  });
});

describe('order of operations', () => {
  test('follows the calls, from an open to the close and the next open', async () => {
    const handles = new FileHandles();
    const file = new FakeFile();
    const slow = gate();
    const done: string[] = [];
    const calls = [
      handles.open('h', async () => {
        await slow.opened;
        return file;
      }),
      handles.writeBlock('h', 0, Buffer.alloc(1)),
      handles.readBlock('h', 1, 1),
      handles.close('h'),
      handles.open('h', async () => new FakeFile()),
      handles.close('h'),
    ].map((call, index) => Promise.resolve(call).then(() => done.push(`${index}`)));
    expect(file.log).toEqual([]);
    slow.open();
    await Promise.all(calls);
    expect(done.join('')).toBe('012345');
    expect(file.log).toEqual([
      'write 0+1 begins',
      'write 0+1',
      'read 1 begins',
      'read 1',
      'close begins',
      'close',
    ]);
  });

  test('does not delay other handles', async () => {
    const { handles, file } = await withOne();
    const slow = gate();
    file.gate = slow.opened;
    const waiting = handles.readBlock('h', 0, 1);
    await handles.open('other', async () => new FakeFile());
    await handles.readBlock('other', 0, 1);
    await handles.close('other');
    expect(file.log).toEqual(['read 0 begins']);
    slow.open();
    await waiting;
  });

  test('continues after a failed open', async () => {
    const handles = new FileHandles();
    const failed = failureOf(handles.open('h', () => Promise.reject(systemError(Errno.ENOENT))));
    const read = failureOf(handles.readBlock('h', 0, 1));
    const again = handles.open('h', async () => new FakeFile());
    expect(await failed).toMatchObject({ message: 'No such file or directory (os error 2)' });
    expect(await read).toEqual(unknown('h'));
    await again;
  });
});

describe('closing', () => {
  test('reports an error and still frees the handle', async () => {
    const { handles, file } = await withOne();
    file.failure = systemError(Errno.EIO);
    expect(await failureOf(handles.close('h'))).toMatchObject({ message: 'I/O error (os error 5)' });
    await handles.close('h');
    expect(file.log).toEqual(['close begins']);
  });

  test('of the connection discards every file, even if others fail', async () => {
    const handles = new FileHandles();
    const files = [new FakeFile(), new FakeFile(), new FakeFile()];
    for (const [index, file] of files.entries()) await handles.open(`${index}`, async () => file);
    files[1]!.discard = () => Promise.reject(systemError(Errno.EIO));
    await handles.dispose();
    expect(files[0]!.log).toEqual(['discard']);
    expect(files[2]!.log).toEqual(['discard']);
    await handles.dispose();
    expect(await failureOf(handles.open('new', () => expect.unreachable('it is not opened')))).toEqual(ENDED);
  });

  test('of the connection discards a file that is still being opened and drops queued operations', async () => {
    const handles = new FileHandles();
    const file = new FakeFile();
    const slow = gate();
    const opening = handles.open('h', async () => {
      await slow.opened;
      return file;
    });
    const writing = failureOf(handles.writeBlock('h', 0, Buffer.alloc(1)));
    const closing = handles.close('h');
    await Promise.resolve();
    const disposed = handles.dispose();
    slow.open();
    await Promise.all([opening, closing, disposed]);
    expect(await writing).toEqual(ENDED);
    expect(file.log).toEqual(['discard']);
  });

  test('waits for an operation in progress', async () => {
    const { handles, file } = await withOne();
    const slow = gate();
    file.gate = slow.opened;
    const reading = handles.readBlock('h', 0, 1);
    await expect.poll(() => file.log).toEqual(['read 0 begins']);
    const disposed = handles.dispose();
    slow.open();
    await Promise.all([reading, disposed]);
    expect(file.log).toEqual(['read 0 begins', 'read 0', 'discard']);
  });
});
