import { closeSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { Backoff } from '../../base/backoff.ts';
import { TERMINAL_RETRY_MAX_MS, TERMINAL_RETRY_MIN_MS } from '../limits.ts';
import type { InputSink } from './spawner.ts';

/** Writes to a child's stdin pipe and never blocks. Owns the descriptor. */
export class PipeSink implements InputSink {
  readonly #fd: number;
  #socket: Socket | null = null;
  #closed = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(bytes: Uint8Array, done: (error: Error | null) => void): void {
    if (this.#closed && this.#socket === null) {
      process.nextTick(done, closedError());
      return;
    }
    this.#open().write(bytes, (error) => done(error ?? null));
  }

  end(): void {
    if (this.#socket !== null) this.#socket.end();
    else this.destroy();
    this.#closed = true;
  }

  destroy(): void {
    if (this.#socket !== null) this.#socket.destroy();
    else if (!this.#closed) closeSync(this.#fd);
    this.#closed = true;
  }

  #open(): Socket {
    if (this.#socket === null) {
      this.#socket = new Socket({ fd: this.#fd, readable: false });
      // Every write reports its own error.
      this.#socket.on('error', () => {});
    }
    return this.#socket;
  }
}

/**
 * Writes to a child through the master of its terminal. Owns the descriptor, which must be non-blocking. Does not use libuv,
 * which spins on a full terminal; a write to a full terminal is retried after a short wait.
 */
export class TerminalSink implements InputSink {
  #fd: number | null;
  #queue: PendingWrite[] = [];
  readonly #backoff = new Backoff(TERMINAL_RETRY_MIN_MS, TERMINAL_RETRY_MAX_MS);
  #retry: NodeJS.Timeout | null = null;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Null once destroyed. */
  get fd(): number | null {
    return this.#fd;
  }

  write(bytes: Uint8Array, done: (error: Error | null) => void): void {
    this.#queue.push({ rest: bytes, done });
    if (this.#retry === null) this.#flush();
  }

  end(): void {
    throw new Error(
      'the input of a terminal cannot be closed; write its end-of-file character (0x04) instead',
    );
  }

  destroy(): void {
    if (this.#fd === null) return;
    closeSync(this.#fd);
    this.#fd = null;
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#retry = null;
    this.#failAll(closedError());
  }

  #flush(): void {
    this.#retry = null;
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const written = this.#writeSome(next.rest);
      if (written instanceof Error) {
        this.#failAll(written);
        return;
      }
      if (written === 0 && next.rest.length > 0) {
        this.#retry = setTimeout(() => this.#flush(), this.#backoff.next());
        return;
      }
      this.#backoff.reset();
      next.rest = next.rest.subarray(written);
      if (next.rest.length === 0) {
        this.#queue.shift();
        process.nextTick(next.done, null);
      }
    }
  }

  #writeSome(bytes: Uint8Array): number | Error {
    if (this.#fd === null) return closedError();
    try {
      return writeSync(this.#fd, bytes);
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'EAGAIN' ? 0 : (error as Error);
    }
  }

  #failAll(error: Error): void {
    const failed = this.#queue;
    this.#queue = [];
    for (const { done } of failed) process.nextTick(done, error);
  }
}

interface PendingWrite {
  rest: Uint8Array;
  readonly done: (error: Error | null) => void;
}

function closedError(): Error {
  return Object.assign(new Error('the input of the process is closed'), { code: 'EPIPE' });
}
