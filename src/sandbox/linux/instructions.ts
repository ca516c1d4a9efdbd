import { closeSync, writeSync } from 'node:fs';
import { errorCode } from '../../files/errors.ts';
import { PipeSink } from '../../process/spawn/input-sink.ts';
import type { InputSink, SandboxCalls } from '../../process/spawn/spawner.ts';
import { SMALL_PIPE_BYTES } from './limits.ts';

/**
 * What bwrap is told after it has been started: that takes as long as finding out what to tell it, so both are done at the same time.
 * It reads from a pipe and waits for the end of that: its arguments, or nothing if it is to go on with those it has. The launcher is a
 * file in memory that is empty until all arguments are in the pipe. Whatever happens to this process, no launcher runs behind arguments
 * that are not complete, or in a sandbox that is not.
 */
export class Instructions {
  readonly #launcher: number;
  readonly #readEnd: number;
  readonly #writeEnd: number;
  #sink: InputSink | null = null;
  #handedOver = false;
  #closed = false;

  constructor(calls: Pick<SandboxCalls, 'createPipe' | 'memoryFile'>) {
    this.#launcher = calls.memoryFile(NOTHING);
    try {
      const { readEnd, writeEnd } = calls.createPipe();
      this.#readEnd = readEnd;
      this.#writeEnd = writeEnd;
    } catch (error) {
      closeSync(this.#launcher);
      throw error;
    }
  }

  /** What bwrap inherits: the launcher, and the end of the pipe from which it reads. */
  get inherited(): Readonly<Record<'launcher' | 'pipe', { readonly fd: number }>> {
    return { launcher: { fd: this.#launcher }, pipe: { fd: this.#readEnd } };
  }

  /** To be called once, when bwrap has been started. Resolves when it has everything, or is gone. */
  async send({ args, launcher }: Readonly<Record<'args' | 'launcher', Buffer>>): Promise<void> {
    if (this.#closed) return;
    const small = args.length <= SMALL_PIPE_BYTES;
    const complete = small ? writeIfRead(this.#writeEnd, args) : await this.#write(args);
    if (this.#closed) return;
    if (complete) this.#fillLauncher(launcher);
    this.close();
  }

  /** Lets go of what only bwrap needs. To be called when it has been started, or is not going to be. */
  handOver(): void {
    if (this.#handedOver) return;
    this.#handedOver = true;
    closeSync(this.#readEnd);
  }

  /** Frees all descriptors. A bwrap that still waits finds its arguments at an end, and no launcher. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.handOver();
    closeSync(this.#launcher);
    if (this.#sink !== null) this.#sink.destroy();
    else closeSync(this.#writeEnd);
  }

  #write(args: Buffer): Promise<boolean> {
    const sink = new PipeSink(this.#writeEnd);
    this.#sink = sink;
    return new Promise((resolve) => sink.write(args, (error) => resolve(error === null)));
  }

  #fillLauncher(content: Buffer): void {
    let at = 0;
    while (at < content.length) at += writeSync(this.#launcher, content, at, content.length - at, at);
  }
}

/** False when bwrap has ended and reads no more; how it ended tells why. */
function writeIfRead(fd: number, bytes: Buffer): boolean {
  try {
    return writeSync(fd, bytes) === bytes.length;
  } catch (error) {
    if (errorCode(error) === 'EPIPE') return false;
    throw error;
  }
}

const NOTHING = Buffer.alloc(0);
