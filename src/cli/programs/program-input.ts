import { fstatSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { isatty } from 'node:tty';
import type { ExecProcess } from '../../client/backend.ts';
import { ClientError } from '../../client/errors.ts';
import { INPUT_CHUNK_BYTES } from '../../client/limits.ts';
import { RunError } from '../failures.ts';
import { cannotReadFile } from '../file-failures.ts';
import { MAX_WRITES } from './limits.ts';

/** Whether stdin and stdout are terminals. */
export function hasTerminal(): boolean {
  return isatty(0) && isatty(1);
}

/** Whether stdin is a pipe, a file or a socket, and not a device such as /dev/null. */
export function isStdinPiped(): boolean {
  try {
    return !fstatSync(0).isCharacterDevice();
  } catch {
    return false;
  }
}

/**
 * Writes to the stdin of a program, several chunks at a time, so that a long line is used, and no faster than the program reads. Input
 * that nothing reads any more is dropped.
 */
export class ProgramInput {
  readonly #process: ExecProcess;
  readonly #writes = new Set<Promise<void>>();
  #closed = false;
  #failure: Error | null = null;

  constructor(process: ExecProcess) {
    this.#process = process;
  }

  /** Resolves with whether the program still reads, as soon as more may be written. */
  async write(bytes: Uint8Array): Promise<boolean> {
    for (let at = 0; at < bytes.length && !this.#closed; at += INPUT_CHUNK_BYTES) {
      while (this.#writes.size >= MAX_WRITES) await Promise.race(this.#writes);
      const write = this.#send(bytes.subarray(at, at + INPUT_CHUNK_BYTES)).finally(() =>
        this.#writes.delete(write),
      );
      this.#writes.add(write);
    }
    if (this.#failure !== null) throw this.#failure;
    return !this.#closed;
  }

  /** Copies a stream to its end, and closes stdin. */
  async copy(source: Readable): Promise<void> {
    try {
      for await (const chunk of source) if (!(await this.write(chunk))) return;
    } catch (error) {
      if (error === this.#failure) throw error;
      throw cannotReadFile('stdin', error);
    }
    while (this.#writes.size > 0) await Promise.race(this.#writes);
    if (this.#failure !== null) throw this.#failure;
    if (!this.#closed) await this.#unlessEnded(() => this.#process.closeStdin()).catch(explainedEnd);
  }

  async #send(bytes: Uint8Array): Promise<void> {
    try {
      const isWritten = await this.#unlessEnded(() => this.#process.write(bytes).then(() => true));
      if (isWritten !== true) this.#closed = true;
    } catch (error) {
      this.#closed = true;
      this.#failure = error as Error;
    }
  }

  /** The end of the program explains more than the call that failed because of it. */
  async #unlessEnded<T>(call: () => Promise<T>): Promise<T | null> {
    try {
      return await call();
    } catch (error) {
      const { exited, failure } = this.#process.state;
      const readsNoMore = error instanceof ClientError && ['stdinClosed', 'notFound'].includes(error.kind);
      if (readsNoMore || exited || failure !== null) return null;
      throw error;
    }
  }
}

/** Throws RunError for a server that has no method to close stdin, where a program that reads to the end would wait without an end. */
function explainedEnd(error: unknown): never {
  if (!(error instanceof ClientError) || error.kind !== 'unsupported') throw error;
  throw new RunError(
    'the server cannot close stdin, so the program was ended; use -n for one that needs no input',
    { kind: error.kind },
  );
}
