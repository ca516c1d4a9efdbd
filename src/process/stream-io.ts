import type { Readable, Writable } from 'node:stream';
import type { InputSink, OutputSource, StreamName } from './spawner.ts';

/** Reads a child's output through a stream that child_process made. */
export class StreamSource implements OutputSource {
  readonly name: StreamName;
  readonly #stream: Readable;
  #onChunk: (bytes: Buffer) => void = () => {};
  #onEnd: () => void = () => {};

  constructor(name: StreamName, stream: Readable) {
    this.name = name;
    this.#stream = stream;
    stream.pause();
    stream.on('data', (bytes: Buffer) => this.#onChunk(bytes));
    stream.on('error', () => {});
    stream.on('close', () => this.#onEnd());
  }

  listen(onChunk: (bytes: Buffer) => void, onEnd: () => void): void {
    this.#onChunk = onChunk;
    this.#onEnd = onEnd;
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  destroy(): void {
    this.#stream.destroy();
  }
}

/** Writes to a child's stdin through a stream that child_process made. */
export class StreamSink implements InputSink {
  readonly #stream: Writable;

  constructor(stream: Writable) {
    this.#stream = stream;
    // Every write reports its own failure.
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
