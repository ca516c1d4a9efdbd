import type { Readable, Writable } from 'node:stream';
import { DRAINED_STREAM_BYTES } from '../limits.ts';
import type { InputSink, OutputSource, StreamName } from './spawner.ts';

/**
 * Reads a child's output through a stream of child_process. It reads chunks itself and does not let the stream flow, because
 * child_process makes every stream flow when the child exits, even a paused one.
 */
export class StreamSource implements OutputSource {
  readonly name: StreamName;
  readonly #stream: Readable;
  #paused = true;
  #ended = false;
  #deliveredBytes = 0;
  /** Continues a drain that a pause has stopped. */
  #continueDrain: () => void = () => {};
  #onChunk: (bytes: Buffer) => void = () => {};
  #onEnd: () => void = () => {};

  constructor(name: StreamName, stream: Readable) {
    this.name = name;
    this.#stream = stream;
    stream.on('readable', () => this.#take());
    stream.on('error', () => {});
    stream.on('close', () => {
      this.#ended = true;
      this.#onEnd();
      this.#continueDrain();
    });
  }

  listen(onChunk: (bytes: Buffer) => void, onEnd: () => void): void {
    this.#onChunk = onChunk;
    this.#onEnd = onEnd;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    setImmediate(() => this.#take());
    this.#continueDrain();
  }

  expectReply(): void {}

  /** The stream does not show how much is readable. A turn of the event loop without a chunk shows that nothing is left. */
  drainReadable(done: () => void, whilePaused = false): void {
    const limit = this.#deliveredBytes + DRAINED_STREAM_BYTES;
    const readOneTurn = () => {
      this.#continueDrain = () => {};
      const before = this.#deliveredBytes;
      if (whilePaused) this.#take(limit);
      afterNextPoll(() => {
        if (this.#ended || this.#deliveredBytes >= limit) done();
        else if (this.#paused && !whilePaused) this.#continueDrain = readOneTurn;
        else if (this.#deliveredBytes === before) done();
        else readOneTurn();
      });
    };
    readOneTurn();
  }

  destroy(): void {
    this.#paused = true;
    this.#stream.destroy();
  }

  /** While paused it takes nothing, except in a drain up to `drainLimit`. */
  #take(drainLimit = 0): void {
    while (!this.#paused || this.#deliveredBytes < drainLimit) {
      const bytes: Buffer | null = this.#stream.read();
      if (bytes === null) return;
      this.#deliveredBytes += bytes.length;
      this.#onChunk(bytes);
    }
  }
}

/** Runs after the event loop has polled once more: the first callback may run in the turn whose poll is over. */
function afterNextPoll(callback: () => void): void {
  setImmediate(() => setImmediate(callback));
}

/** Writes to a child's stdin through a stream of child_process. */
export class StreamSink implements InputSink {
  readonly #stream: Writable;

  constructor(stream: Writable) {
    this.#stream = stream;
    // Every write reports its own error.
    stream.on('error', () => {});
  }

  write(bytes: Uint8Array, done: (error: Error | null) => void): void {
    this.#stream.write(bytes, (error) => done(error ?? null));
  }

  end(): void {
    this.#stream.end();
  }

  destroy(): void {
    this.#stream.destroy();
  }
}
