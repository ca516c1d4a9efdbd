import { Duplex } from 'node:stream';
import { uptimeMs } from '../base/uptime.ts';
import { FAIR_TURNS } from './fair-turns.ts';
import { LIGHT_USE_MS } from './limits.ts';

/** The socket of a client. Sockets count the bytes they read; other streams may not. */
export type CountingStream = Duplex & { readonly bytesRead?: number };

/**
 * A stream between the socket of a client and a library that reads from it. Everything that the client sends costs
 * credit. A connection without credit waits for its turn, and its socket is not read meanwhile. So no client keeps
 * the event loop from serving the others.
 */
export abstract class PacedStream extends Duplex {
  protected readonly socket: CountingStream;
  /** Received bytes that are not handled yet. */
  #rest: Buffer | null;
  #turnCredit: number;
  #credit: number;
  #turnStartedAtMs = uptimeMs();
  #isWaiting = false;
  /** Whether the library reads too slowly. */
  #isFull = false;
  #isHandling = false;
  #isReading = false;
  #hasEnded = false;
  #isClosed = false;
  readonly #turn = () => {
    this.#isWaiting = false;
    this.#startTurn(uptimeMs());
    this.#continue();
  };
  readonly #listeners: Readonly<Record<string, (chunk: Buffer) => void>> = {
    data: (chunk) => {
      this.#rest = joined(this.#rest, chunk);
      this.#continue();
    },
    // In a later turn, so that the library answers a violation before it sees the end.
    end: () => void setImmediate(() => this.#ended()),
    error: () => void this.socket.destroy(),
    close: () => this.#closed(),
  };

  /** `head` has bytes that have arrived already. `turnCredit` is the credit of one turn. */
  constructor(socket: CountingStream, head: Buffer, turnCredit: number) {
    super({ allowHalfOpen: true });
    this.socket = socket;
    this.#rest = head.length === 0 ? null : head;
    this.#turnCredit = turnCredit;
    this.#credit = turnCredit;
    socket.pause();
    for (const [event, listener] of Object.entries(this.#listeners)) socket.on(event, listener);
    if (!socket.destroyed) return;
    this.#isClosed = true;
    this.destroy();
  }

  /** Handles received bytes as far as `mayContinue` allows, and returns how many. */
  protected abstract handle(chunk: Buffer): number;

  /** Whether there is a receiver, and it wants more. At the end of the connection it gets everything. */
  protected abstract isWanted(hasEnded: boolean): boolean;

  /** Whether the socket is read at the moment. */
  get isReading(): boolean {
    return this.#isReading;
  }

  /** Writes to the socket, past this stream. `sent` is called when the system has the bytes. */
  protected writeTogether(parts: readonly Uint8Array[], sent: (error?: Error | null) => void): void {
    this.socket.cork();
    for (const [index, part] of parts.entries()) {
      if (index === parts.length - 1) this.socket.write(part, sent);
      else this.socket.write(part);
    }
    this.socket.uncork();
  }

  /** Sets the credit of a turn. The current turn gets the difference. */
  protected setTurnCredit(turnCredit: number): void {
    this.#credit += turnCredit - this.#turnCredit;
    this.#turnCredit = turnCredit;
  }

  protected spend(cost: number): void {
    this.#credit -= cost;
  }

  protected mayContinue(): boolean {
    return this.#credit > 0 && this.#mayHandle();
  }

  /** Passes bytes to the library. */
  protected pass(bytes: Buffer): void {
    this.#isFull = !this.push(bytes);
  }

  /** Must be called when `isWanted` has changed. */
  protected wantedChanged(): void {
    if (this.isWanted(false)) process.nextTick(() => this.#continue());
    else this.#update();
  }

  /** Gives the socket up: this stream neither reads nor closes it any more. Returns the bytes that are left. */
  protected release(): Buffer {
    for (const [event, listener] of Object.entries(this.#listeners)) this.socket.off(event, listener);
    FAIR_TURNS.remove(this.#turn);
    this.#isClosed = true;
    const rest = this.#rest ?? NOTHING;
    this.#rest = null;
    this.socket.pause();
    return rest;
  }

  override _read(): void {
    if (!this.#isFull) return;
    this.#isFull = false;
    process.nextTick(() => this.#continue());
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, written: (error?: Error | null) => void): void {
    this.socket.write(chunk, encoding, written);
  }

  /** What the library writes together stays together. */
  override _writev(
    chunks: { readonly chunk: Buffer | string; readonly encoding: BufferEncoding }[],
    written: (error?: Error | null) => void,
  ): void {
    const parts = chunks.map(({ chunk, encoding }) =>
      typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk,
    );
    this.writeTogether(parts, written);
  }

  override _final(ended: () => void): void {
    this.socket.end(ended);
  }

  override _destroy(error: Error | null, destroyed: (error: Error | null) => void): void {
    FAIR_TURNS.remove(this.#turn);
    this.#rest = null;
    if (this.#isClosed) {
      destroyed(error);
    } else {
      this.socket.once('close', () => destroyed(error));
      this.socket.destroy();
    }
  }

  #mayHandle(): boolean {
    if (this.#isWaiting || !this.isWanted(this.#isClosed)) return false;
    return this.#isClosed || !this.#isFull;
  }

  #continue(): void {
    if (this.#isHandling || this.destroyed) return;
    this.#isHandling = true;
    while (this.#rest !== null && this.#mayHandle()) {
      const taken = this.handle(this.#rest);
      // The connection may have ended, or its socket been given up, while the bytes were handled.
      if (this.#rest !== null) this.#rest = taken === this.#rest.length ? null : this.#rest.subarray(taken);
      if (this.#credit <= 0) this.#endTurn();
    }
    this.#isHandling = false;
    this.#update();
  }

  #startTurn(nowMs: number): void {
    this.#turnStartedAtMs = nowMs;
    this.#credit = this.#turnCredit;
  }

  #endTurn(): void {
    const nowMs = uptimeMs();
    if (nowMs - this.#turnStartedAtMs >= LIGHT_USE_MS) {
      this.#startTurn(nowMs);
    } else if (!this.destroyed) {
      this.#isWaiting = true;
      FAIR_TURNS.add(this.#turn);
    }
  }

  /** Reads the socket while there is nothing left to handle, and passes its end on after the last byte. */
  #update(): void {
    if (this.destroyed) return;
    const mayRead = this.#rest === null && this.#mayHandle();
    if (mayRead !== this.#isReading && !this.#isClosed) this.#setReading(mayRead);
    if (this.#rest !== null && this.isWanted(this.#isClosed)) return;
    if (this.#isClosed) this.destroy();
    else if (this.#hasEnded && this.#rest === null) this.#pushEnd();
  }

  #setReading(reading: boolean): void {
    this.#isReading = reading;
    // A paused socket still reads until it holds as much as its high-water mark, and so notices its end.
    if (reading) this.socket.resume();
    else this.socket.pause();
  }

  #ended(): void {
    this.#hasEnded = true;
    this.#update();
  }

  #pushEnd(): void {
    if (this.readableEnded) return;
    this.push(null);
    // The end must not wait until the library reads.
    this.read(0);
  }

  #closed(): void {
    this.#isClosed = true;
    for (let rest: Buffer | null = this.socket.read(); rest !== null; rest = this.socket.read()) {
      this.#rest = joined(this.#rest, rest);
    }
    this.#continue();
  }
}

function joined(before: Buffer | null, bytes: Buffer): Buffer {
  return before === null ? bytes : Buffer.concat([before, bytes]);
}

const NOTHING = Buffer.alloc(0);
