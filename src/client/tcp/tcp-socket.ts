import { Duplex } from 'node:stream';
import { TCP_LARGE_WRITE_BYTES } from '../limits.ts';
import type { TcpStream } from './tcp-stream.ts';

type Done = (error?: Error | null) => void;

/** A {@link TcpStream} as a stream of Node. Half-open: each side ends on its own. `destroy` resets the connection. */
export class TcpSocket extends Duplex {
  readonly #stream: TcpStream;

  constructor(stream: TcpStream) {
    // The stream has a queue of its own. With a second one here, an error would overtake received bytes.
    super({ readableHighWaterMark: 0, writableHighWaterMark: TCP_LARGE_WRITE_BYTES });
    this.#stream = stream;
  }

  override _read(): void {
    this.#stream.next().then(
      (chunk) => this.push(chunk),
      (error: Error) => this.destroy(error),
    );
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#stream.write(chunk).then(() => done(), done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: Done): void {
    this.#stream.write(Buffer.concat(chunks.map(({ chunk }) => chunk))).then(() => done(), done);
  }

  override _final(done: Done): void {
    this.#stream.end().then(() => done(), done);
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#stream.close();
    done(error);
  }
}
