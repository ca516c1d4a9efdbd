import { closeSync, writeSync } from 'node:fs';
import { errorCode } from '../../files/errors.ts';
import { PipeSink } from '../../process/spawn/input-sink.ts';
import type { InputSink, SandboxCalls } from '../../process/spawn/spawner.ts';
import { SMALL_PIPE_BYTES } from './limits.ts';

/**
 * The input that bwrap receives after it was started. Starting bwrap takes as long as preparing its input, so both run at the same time.
 * bwrap reads a pipe to its end: its arguments, or nothing if it continues with those it has. The launcher is a memory file that stays
 * empty until all arguments are in the pipe. So even if this process dies, no launcher runs with incomplete arguments or in an incomplete
 * sandbox.
 */
export class Instructions {
  readonly #launcher: number;
  readonly #readEnd: number;
  readonly #writeEnd: number;
  #sink: InputSink | null = null;
  #readEndClosed = false;
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

  /** What bwrap inherits: the launcher and the read end of the pipe. */
  get inherited(): Readonly<Record<'launcher' | 'pipe', { readonly fd: number }>> {
    return { launcher: { fd: this.#launcher }, pipe: { fd: this.#readEnd } };
  }

  /** Must be called once, after bwrap was started. Resolves when bwrap has everything, or has exited. */
  async send({ args, launcher }: Readonly<Record<'args' | 'launcher', Buffer>>): Promise<void> {
    if (this.#closed) return;
    const small = args.length <= SMALL_PIPE_BYTES;
    const complete = small ? writeIfRead(this.#writeEnd, args) : await this.#write(args);
    if (this.#closed) return;
    if (complete) this.#fillLauncher(launcher);
    this.close();
  }

  /** Must be called when bwrap was started, or will not be started. Only bwrap needs the read end. */
  closeReadEnd(): void {
    if (this.#readEndClosed) return;
    this.#readEndClosed = true;
    closeSync(this.#readEnd);
  }

  /** Closes all descriptors. A bwrap that still waits reads the end of its arguments and an empty launcher. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.closeReadEnd();
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

/** False when bwrap has exited. Its exit status says why. */
function writeIfRead(fd: number, bytes: Buffer): boolean {
  try {
    return writeSync(fd, bytes) === bytes.length;
  } catch (error) {
    if (errorCode(error) === 'EPIPE') return false;
    throw error;
  }
}

const NOTHING = Buffer.alloc(0);
