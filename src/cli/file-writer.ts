import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';

/** Returns the stream itself for a pipe, a stream socket or a terminal, and otherwise one that writes everything or fails. */
export function withWholeWrites(stream: Writable): Writable {
  const { fd } = stream as { readonly fd?: number };
  return fd === undefined || stream instanceof Socket ? stream : new FileWriter(fd);
}

/**
 * Node's own stream for a file drops the rest of a write that the system did not complete, as on a disk that is nearly full, and the one
 * for a block device drops everything. This one writes all of it. It blocks, like Node's: passing 64 KiB to a thread takes longer than writing them.
 */
export class FileWriter extends Writable {
  readonly #fd: number;

  constructor(fd: number) {
    super();
    this.#fd = fd;
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    let failure: Error | null = null;
    try {
      for (let from = 0; from < bytes.length; ) from += writeSync(this.#fd, bytes, from);
    } catch (error) {
      failure = error as Error;
    }
    done(failure);
  }
}
