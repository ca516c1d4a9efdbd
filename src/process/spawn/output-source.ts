import { closeSync, readSync } from 'node:fs';
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import { ReadStream } from 'node:tty';
import { OUTPUT_READ_BYTES } from '../limits.ts';
import type { OutputSource, StreamName } from './spawner.ts';

/** Reads a child's stdout or stderr pipe. Owns the descriptor. */
export function pipeSource(name: StreamName, fd: number): OutputSource {
  const open = (onread: OnReadOpts) => new Socket(undeclared({ fd, writable: false, onread }));
  return new DescriptorSource(name, fd, open, false);
}

/**
 * Reads the master of a child's terminal. Owns the descriptor, which must be non-blocking. The stream stays half open at its end
 * because libuv reports the end of a hung-up terminal before it is empty: what is left is read from the descriptor directly.
 */
export function terminalSource(fd: number): OutputSource {
  const open = (onread: OnReadOpts) => new ReadStream(fd, undeclared({ onread, allowHalfOpen: true }));
  return new DescriptorSource('pty', fd, open, true);
}

/** Node's type declarations omit `onread` where its constructors accept it. */
function undeclared(options: SocketConstructorOpts & { onread: OnReadOpts }): SocketConstructorOpts {
  return options;
}

/**
 * All sources read into this one buffer. A chunk lives in it only while libuv's read callback, or one turn of the drain loop, runs,
 * and neither is ever entered from within the other.
 */
const READ_BUFFER = Buffer.allocUnsafeSlow(OUTPUT_READ_BYTES);

class DescriptorSource implements OutputSource {
  readonly name: StreamName;
  readonly #fd: number;
  readonly #open: (onread: OnReadOpts) => Socket;
  readonly #drainsAtEnd: boolean;
  #state: 'unopened' | 'streaming' | 'draining' | 'ended' = 'unopened';
  #paused = true;
  #socket: Socket | null = null;
  #onChunk: (bytes: Buffer) => void = () => {};
  #onEnd: () => void = () => {};

  constructor(name: StreamName, fd: number, open: (onread: OnReadOpts) => Socket, drainsAtEnd: boolean) {
    this.name = name;
    this.#fd = fd;
    this.#open = open;
    this.#drainsAtEnd = drainsAtEnd;
  }

  listen(onChunk: (bytes: Buffer) => void, onEnd: () => void): void {
    this.#onChunk = onChunk;
    this.#onEnd = onEnd;
  }

  pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    if (this.#state === 'streaming') this.#socket?.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    if (this.#state === 'unopened') this.#start();
    else if (this.#state === 'streaming') this.#socket?.resume();
    // The caller may stand inside another source's callback, whose chunk is still in the shared buffer.
    else if (this.#state === 'draining') setImmediate(() => this.#drain());
  }

  destroy(): void {
    if (this.#state === 'ended') return;
    this.#paused = true;
    if (this.#socket !== null) {
      this.#socket.destroy();
      return;
    }
    closeSync(this.#fd);
    this.#finish();
  }

  #start(): void {
    this.#state = 'streaming';
    const callback = (size: number): boolean => {
      this.#onChunk(READ_BUFFER.subarray(0, size));
      return !this.#paused;
    };
    const socket = this.#open({ buffer: READ_BUFFER, callback });
    this.#socket = socket;
    // A failed read (EIO on a terminal whose last slave is closed) ends the stream; `close` follows.
    socket.on('error', () => {});
    socket.on('close', () => this.#finish());
    if (this.#drainsAtEnd) {
      socket.on('end', () => {
        this.#state = 'draining';
        this.#drain();
      });
    }
    // Starts reading without making the stream flow: a flowing start is completed a tick later, even after a pause.
    socket.read(0);
  }

  #drain(): void {
    while (!this.#paused && this.#state === 'draining') {
      const size = readRest(this.#fd);
      if (size === 0) {
        this.#socket?.destroy();
        return;
      }
      this.#onChunk(READ_BUFFER.subarray(0, size));
    }
  }

  #finish(): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#onEnd();
  }
}

/** Bytes read into the shared buffer; 0 when a terminal's master has nothing more to give, which it says with EIO. */
function readRest(fd: number): number {
  try {
    return readSync(fd, READ_BUFFER, 0, READ_BUFFER.length, null);
  } catch {
    return 0;
  }
}
