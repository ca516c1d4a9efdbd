import type { Readable, Writable } from 'node:stream';
import type { InputSink, OutputSource, StreamName } from './spawner.ts';

/**
 * Reads a child's output through a stream of child_process. It reads chunks itself and does not let the stream flow, because
 * child_process makes every stream flow when the child exits, even a paused one.
 */
export class StreamSource implements OutputSource {
  readonly name: StreamName;
  readonly #stream: Readable;
  #paused = true;
  #onChunk: (bytes: Buffer) => void = () => {};
  #onEnd: () => void = () => {};

  constructor(name: StreamName, stream: Readable) {
    this.name = name;
    this.#stream = stream;
    stream.on('readable', () => this.#take());
    stream.on('error', () => {});
    stream.on('close', () => this.#onEnd());
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
  }

  expectReply(): void {}

  destroy(): void {
    this.#paused = true;
    this.#stream.destroy();
  }

  #take(): void {
    while (!this.#paused) {
      const bytes: Buffer | null = this.#stream.read();
      if (bytes === null) return;
      this.#onChunk(bytes);
    }
  }
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
