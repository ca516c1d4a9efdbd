import { closeSync, readSync } from 'node:fs';
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import { ReadStream } from 'node:tty';
import {
  FLOOD_PAUSE_MS,
  FLOODED_PIPE_BYTES,
  FULL_TERMINAL_BYTES,
  MAX_WIDENED_PIPES,
  OUTPUT_READ_BYTES,
  TERMINAL_REFILL_POLLS,
} from '../limits.ts';
import { ReadPacing } from './read-pacing.ts';
import type { OutputSource, StreamName } from './spawner.ts';

/** System calls that make reading cheaper; each works on the source's own descriptor. */
export interface ReadCalls {
  /** Reads what is available into `buffer` from `offset` on; 0 when there is nothing. */
  readNow(fd: number, buffer: Buffer, offset: number): number;
  /** How many bytes are available. */
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
 * All sources read into this one buffer. It holds a chunk only while libuv's read callback or one iteration of a drain loop
 * runs, and none of them is ever entered from within another.
 */
const READ_BUFFER = Buffer.allocUnsafeSlow(OUTPUT_READ_BYTES);

/** Widened pipes that are open in this process. */
let widenedPipes = 0;

class DescriptorSource implements OutputSource {
  readonly name: StreamName;
  readonly #fd: number;
  readonly #open: (onread: OnReadOpts) => Socket;
  readonly #calls: ReadCalls;
  readonly #pacing = new ReadPacing(() => performance.now());
  #state: 'unopened' | 'streaming' | 'draining' | 'ended' = 'unopened';
  #paused = true;
  /** Cancels the current pause or yield; null while reading. */
  #pausing: { cancel(): void } | null = null;
  #widened = false;
  /** What was readable at the exit and has not been delivered yet. */
  #readableAtExit: { bytesLeft: number; readonly done: () => void; readonly whilePaused: boolean } | null =
    null;
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
    else if (this.#state === 'streaming' && this.#pausing === null) this.#socket?.resume();
    // The caller may run inside another source's callback, whose chunk is still in the shared buffer.
    else if (this.#state === 'draining') setImmediate(() => this.#drain());
    if (this.#readableAtExit !== null) queueMicrotask(() => this.#drainAfterExit());
  }

  expectReply(): void {
    this.#pacing.expectReply();
    this.#endPause();
  }

  drainReadable(done: () => void, whilePaused = false): void {
    if (this.#state === 'ended') {
      done();
      return;
    }
    // A terminal holds less than a full buffer, and FIONREAD reports only a part of it.
    const bytesLeft = this.name === 'pty' ? OUTPUT_READ_BYTES : this.#calls.readable(this.#fd);
    this.#readableAtExit = { bytesLeft, done, whilePaused };
    this.#drainAfterExit();
  }

  destroy(): void {
    if (this.#state === 'ended') return;
    this.#paused = true;
    this.#endPause();
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
    // Starts reading without making the stream flow: a flowing start takes effect a tick later, even after a pause.
    socket.read(0);
  }

  /** Delivers a chunk; false stops reading until it is resumed. */
  #deliver(size: number): boolean {
    const gathered = this.#gather(size);
    const beganAt = this.#pacing.begin();
    this.#onChunk(READ_BUFFER.subarray(0, gathered));
    if (this.#paused) return false;
    const pace = this.#pacing.afterRead(gathered, beganAt);
    if (pace === 'continue') return true;
    this.#widen();
    this.#pauseFor(pace);
    return false;
  }

  /** A terminal returns at most a few kilobytes per read. Reads what else it holds into the same chunk. */
  #gather(size: number): number {
    if (this.name !== 'pty') return size;
    let gathered = size;
    for (let more = size; more > 0; gathered += more) {
      if (gathered >= FULL_TERMINAL_BYTES) this.#awaitRefill();
      more = this.#calls.readNow(this.#fd, READ_BUFFER, gathered);
    }
    return gathered;
  }

  /**
   * After a full terminal was emptied the kernel refills it on another CPU within microseconds. A read before that puts this
   * thread to sleep until the refill is done, even on a non-blocking descriptor, and waking up takes several times as long.
   */
  #awaitRefill(): void {
    for (let poll = 0; poll < TERMINAL_REFILL_POLLS; poll++) {
      if (this.#calls.readable(this.#fd) > 0) return;
    }
  }

  #pauseFor(pace: 'yield' | 'pause'): void {
    const wake = () => this.#endPause();
    if (pace === 'yield') {
      const immediate = setImmediate(wake);
      this.#pausing = { cancel: () => clearImmediate(immediate) };
    } else {
      const timer = setTimeout(wake, FLOOD_PAUSE_MS);
      this.#pausing = { cancel: () => clearTimeout(timer) };
    }
  }

  #endPause(): void {
    if (this.#pausing === null) return;
    this.#pausing.cancel();
    this.#pausing = null;
    if (!this.#paused && this.#state === 'streaming') this.#socket?.resume();
  }

  /** Enlarges the pipe of a program that floods it, so that the program can continue while the server does not read. */
  #widen(): void {
    if (this.#widened || this.name === 'pty' || widenedPipes === MAX_WIDENED_PIPES) return;
    this.#widened = true;
    widenedPipes++;
    this.#calls.widenPipe(this.#fd, FLOODED_PIPE_BYTES);
  }

  /** Reads ahead of libuv, in the turn in which the exit is reported. A source that has reached its end calls `done` when it finishes. */
  #drainAfterExit(): void {
    const drain = this.#readableAtExit;
    if (drain === null) return;
    while (drain.bytesLeft > 0) {
      if (this.#paused && !drain.whilePaused) return;
      if (this.#state !== 'streaming' || this.#socket?.destroyed !== false) return;
      const size = this.#gather(this.#calls.readNow(this.#fd, READ_BUFFER, 0));
      if (size === 0) break;
      drain.bytesLeft -= size;
      this.#onChunk(READ_BUFFER.subarray(0, size));
    }
    this.#readableAtExit = null;
    drain.done();
  }

  /** Safe to call twice. Once the socket is destroyed its descriptor number may belong to another file. */
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
    this.#pausing?.cancel();
    if (this.#widened) widenedPipes--;
    this.#state = 'ended';
    this.#onEnd();
    const drain = this.#readableAtExit;
    this.#readableAtExit = null;
    drain?.done();
  }
}

/** Bytes read into the shared buffer; 0 when a terminal's master has no more data, which it reports with EIO. */
function readRest(fd: number): number {
  try {
    return readSync(fd, READ_BUFFER, 0, READ_BUFFER.length, null);
  } catch {
    return 0;
  }
}
