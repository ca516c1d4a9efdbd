import type { Socket } from 'node:net';

/** Takes a few bytes at a time from a socket, and leaves the others to whoever comes after it. */
export class HandshakeReader {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake = () => {};

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('close', this.#onEnd);
    socket.pause();
  }

  /** Exactly so many bytes. Rejects when the other side ends before. */
  async bytes(count: number): Promise<Buffer> {
    while (this.#received.length < count) {
      if (this.#ended) throw new Error('the client has gone');
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        this.#socket.resume();
      });
    }
    const bytes = this.#received.subarray(0, count);
    this.#received = this.#received.subarray(count);
    return bytes;
  }

  async text(length: number): Promise<string> {
    return (await this.bytes(length)).toString('latin1');
  }

  /** Gives back what was read ahead. The socket is left paused. */
  release(): void {
    this.#socket.off('data', this.#onData);
    this.#socket.off('end', this.#onEnd);
    this.#socket.off('close', this.#onEnd);
    if (this.#received.length > 0) this.#socket.unshift(this.#received);
  }

  readonly #onData = (data: Buffer): void => {
    this.#socket.pause();
    this.#received = Buffer.concat([this.#received, data]);
    this.#wake();
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#wake();
  };
}
