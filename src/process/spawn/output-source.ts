import { closeSync, readSync } from 'node:fs';
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import { ReadStream } from 'node:tty';
import {
  FLOODED_PIPE_BYTES,
  FULL_TERMINAL_BYTES,
  OUTPUT_READ_BYTES,
  TERMINAL_REFILL_LOOKS,
} from '../limits.ts';
import { REST_MS, ReadPacing } from './read-pacing.ts';
import type { OutputSource, StreamName } from './spawner.ts';

/** System calls that make reading cheaper; each works on the source's own descriptor. */
export interface ReadCalls {
  /** Reads into `buffer` what is there now, from `offset` on; 0 when there is nothing. */
  readNow(fd: number, buffer: Buffer, offset: number): number;
  /** How many bytes are there now. */
  readable(fd: number): number;
  widenPipe(fd: number, bytes: number): void;
}

/** Reads a child's stdout or stderr pipe. Owns the descriptor. */
export function pipeSource(name: StreamName, fd: number, calls: ReadCalls): OutputSource {
  const open = (onread: OnReadOpts) => new Socket(undeclared({ fd, writable: false, onread }));
  return new DescriptorSource(name, fd, open, calls);
}

/**
 * Reads the master of a child's terminal. Owns the descriptor, which must be non-blocking. The stream stays half open at its end
 * because libuv reports the end of a hung-up terminal before it is empty: what is left is read from the descriptor directly.
 */
export function terminalSource(fd: number, calls: ReadCalls): OutputSource {
  const open = (onread: OnReadOpts) => new ReadStream(fd, undeclared({ onread, allowHalfOpen: true }));
  return new DescriptorSource('pty', fd, open, calls);
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
  readonly #calls: ReadCalls;
  readonly #pacing = new ReadPacing(() => performance.now());
  #state: 'unopened' | 'streaming' | 'draining' | 'ended' = 'unopened';
  #paused = true;
  /** What ends a rest or a yield; null while reading. */
  #resting: { cancel(): void } | null = null;
  #widened = false;
  #socket: Socket | null = null;
  #onChunk: (bytes: Buffer) => void = () => {};
  #onEnd: () => void = () => {};

  constructor(name: StreamName, fd: number, open: (onread: OnReadOpts) => Socket, calls: ReadCalls) {
    this.name = name;
    this.#fd = fd;
    this.#open = open;
    this.#calls = calls;
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
    else if (this.#state === 'streaming' && this.#resting === null) this.#socket?.resume();
    // The caller may stand inside another source's callback, whose chunk is still in the shared buffer.
    else if (this.#state === 'draining') setImmediate(() => this.#drain());
  }

  expectAnswer(): void {
    this.#pacing.expectAnswer();
    this.#endRest();
  }

  destroy(): void {
    if (this.#state === 'ended') return;
    this.#paused = true;
    this.#endRest();
    if (this.#socket !== null) {
      this.#socket.destroy();
      return;
    }
    closeSync(this.#fd);
    this.#finish();
  }

  #start(): void {
    this.#state = 'streaming';
    const callback = (size: number): boolean => this.#deliver(size);
    const socket = this.#open({ buffer: READ_BUFFER, callback });
    this.#socket = socket;
    // A failed read (EIO on a terminal whose last slave is closed) ends the stream; `close` follows.
    socket.on('error', () => {});
    socket.on('close', () => this.#finish());
    if (this.name === 'pty') {
      socket.on('end', () => {
        this.#state = 'draining';
        this.#drain();
      });
    }
    // Starts reading without making the stream flow: a flowing start is completed a tick later, even after a pause.
    socket.read(0);
  }

  /** Passes a piece on; false stops the reading until it is resumed. */
  #deliver(size: number): boolean {
    const gathered = this.name === 'pty' ? this.#gather(size) : size;
    this.#onChunk(READ_BUFFER.subarray(0, gathered));
    if (this.#paused) return false;
    const pace = this.#pacing.afterRead(gathered);
    if (pace === 'continue') return true;
    this.#widen();
    this.#rest(pace);
    return false;
  }

  /** A terminal gives at most a few kilobytes at a time; what else it holds is taken along. */
  #gather(size: number): number {
    let gathered = size;
    for (let more = size; more > 0; gathered += more) {
      if (gathered >= FULL_TERMINAL_BYTES) this.#awaitRefill();
      more = this.#calls.readNow(this.#fd, READ_BUFFER, gathered);
    }
    return gathered;
  }

  /**
   * A terminal that was full and has been emptied is refilled by the kernel on another processor, within microseconds. Who reads before
   * that is put to sleep until it is done, also where a read must not wait, and to be woken takes several times as long.
   */
  #awaitRefill(): void {
    for (let look = 0; look < TERMINAL_REFILL_LOOKS; look++) {
      if (this.#calls.readable(this.#fd) > 0) return;
    }
  }

  #rest(pace: 'yield' | 'rest'): void {
    const wake = () => this.#endRest();
    if (pace === 'yield') {
      const immediate = setImmediate(wake);
      this.#resting = { cancel: () => clearImmediate(immediate) };
    } else {
      const timer = setTimeout(wake, REST_MS);
      this.#resting = { cancel: () => clearTimeout(timer) };
    }
  }

  #endRest(): void {
    if (this.#resting === null) return;
    this.#resting.cancel();
    this.#resting = null;
    if (!this.#paused && this.#state === 'streaming') this.#socket?.resume();
  }

  /** A flood gets a larger pipe, so that the program can go on while nobody reads. */
  #widen(): void {
    if (this.#widened || this.name === 'pty') return;
    this.#widened = true;
    this.#calls.widenPipe(this.#fd, FLOODED_PIPE_BYTES);
  }

  /** May have been asked for twice. Once the socket is destroyed the number of its descriptor may be another's. */
  #drain(): void {
    while (!this.#paused && this.#state === 'draining' && this.#socket?.destroyed === false) {
      const size = readRest(this.#fd);
      if (size === 0) {
        this.#socket.destroy();
        return;
      }
      this.#onChunk(READ_BUFFER.subarray(0, size));
    }
  }

  #finish(): void {
    if (this.#state === 'ended') return;
    this.#resting?.cancel();
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
