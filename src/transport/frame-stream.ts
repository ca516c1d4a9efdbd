import { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { FrameParser } from './frame-parser.ts';
import { freeChunk } from './free-chunk.ts';
import { NEW_PEER_MESSAGE_BYTES, NEW_PEER_TURN_CREDIT, TURN_CREDIT } from './limits.ts';
import type { LargeMessage } from './transport.ts';
import { ConnectionTurns, TurnCredit } from './turn-credit.ts';

/** Receives the messages of a frame stream. */
interface FrameReceiver {
  /** A complete small message. Text is valid UTF-8. The bytes are valid during the call only. */
  message(bytes: Buffer, isBinary: boolean): void;
  /** A message begins that is large, fragmented or split. Its bytes go to the returned object. */
  begin(expectedBytes: number, isBinary: boolean): LargeMessage;
  /** A message is longer than `maxBytes`. The connection must be closed; nothing more arrives. */
  tooLarge(maxBytes: number): void;
}

/** The socket of a client. Sockets count the bytes they read; other streams may not. */
export type CountingStream = Duplex & { readonly bytesRead?: number };

/**
 * The server's end of a websocket connection, between its socket and the websocket library. The library does the
 * handshake, control frames and the close. It never sees a message: this stream parses messages and passes them to
 * their receiver while they arrive.
 *
 * Every frame and every byte of the client passes through here and costs credit. A connection without credit waits
 * for its turn, and its socket is not read meanwhile. So no client keeps the event loop from serving the others.
 */
export class FrameStream extends Duplex {
  readonly #socket: CountingStream;
  readonly #maxMessageBytes: number;
  readonly #parser: FrameParser;
  #receiver: FrameReceiver | null = null;
  /** Received bytes that are not parsed yet. */
  #rest: Buffer | null;
  readonly #turns: ConnectionTurns;
  #isReceiving = true;
  /** Whether the library reads too slowly. */
  #isFull = false;
  #isParsing = false;
  #isReading = false;
  #hasEnded = false;
  #isClosed = false;

  /**
   * `head` has the bytes that arrived with the upgrade request. `maxMessageBytes` 0 means no limit. Connections of one
   * tenant get the same `credit`.
   */
  constructor(
    socket: CountingStream,
    head: Buffer,
    maxMessageBytes: number,
    credit = new TurnCredit(NEW_PEER_TURN_CREDIT),
  ) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    this.#turns = new ConnectionTurns(credit, () => this.#continue());
    this.#rest = head.length === 0 ? null : head;
    this.#maxMessageBytes = maxMessageBytes === 0 ? Number.POSITIVE_INFINITY : maxMessageBytes;
    this.#parser = this.#createParser();
    socket.pause();
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    // In a later turn, so that the library answers a violation before it sees the end.
    socket.on('end', () => setImmediate(() => this.#ended()));
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#closed());
    if (!socket.destroyed) return;
    this.#isClosed = true;
    this.destroy();
  }

  /** Bytes received from the client; undefined where the socket does not count them. */
  get bytesRead(): number | undefined {
    return this.#socket.bytesRead;
  }

  /** Whether the socket is read at the moment. */
  get isReading(): boolean {
    return this.#isReading;
  }

  /** Starts delivery. Must be called once. */
  open(receiver: FrameReceiver): void {
    this.#receiver = receiver;
    this.#continueLater();
  }

  /** Lifts the limits that hold until a client has sent `initialize`. */
  trustPeer(): void {
    this.#turns.credit.setPerTurn(TURN_CREDIT);
    this.#parser.maxMessageBytes = this.#maxMessageBytes;
  }

  /** Stops or resumes the delivery of messages. The socket notices its end also while it is stopped. */
  setReceiving(receiving: boolean): void {
    this.#isReceiving = receiving;
    if (receiving) this.#continueLater();
    else this.#update();
  }

  /** Writes whole frames to the socket, past the library. `sent` is called when the system has them. */
  writeFrames(parts: readonly Uint8Array[], sent: (error?: Error | null) => void): void {
    this.#socket.cork();
    for (const [index, part] of parts.entries()) {
      if (index === parts.length - 1) this.#socket.write(part, sent);
      else this.#socket.write(part);
    }
    this.#socket.uncork();
  }

  override _read(): void {
    if (!this.#isFull) return;
    this.#isFull = false;
    this.#continueLater();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, written: (error?: Error | null) => void): void {
    this.#socket.write(chunk, encoding, written);
  }

  /** The header and the payload of a control frame must not be separated by frames of {@link writeFrames}. */
  override _writev(chunks: { readonly chunk: Buffer }[], written: (error?: Error | null) => void): void {
    this.writeFrames(
      chunks.map(({ chunk }) => chunk),
      written,
    );
  }

  override _final(ended: () => void): void {
    this.#socket.end(ended);
  }

  override _destroy(error: Error | null, destroyed: (error: Error | null) => void): void {
    this.#turns.stop();
    this.#rest = null;
    if (this.#isClosed) {
      destroyed(error);
    } else {
      this.#socket.once('close', () => destroyed(error));
      this.#socket.destroy();
    }
  }

  #createParser(): FrameParser {
    const { credit } = this.#turns;
    return new FrameParser(Math.min(NEW_PEER_MESSAGE_BYTES, this.#maxMessageBytes), {
      message: (bytes, isBinary) => this.#receiver?.message(bytes, isBinary),
      begin: (expectedBytes, isBinary) => this.#receiver!.begin(expectedBytes, isBinary),
      tooLarge: () => this.#receiver?.tooLarge(this.#parser.maxMessageBytes),
      pass: (bytes) => {
        this.#isFull = !this.push(bytes);
      },
      spend: (cost) => credit.spend(cost),
      mayContinue: () => !credit.isSpent && this.#mayParse(),
    });
  }

  /** At the end of the connection everything that has arrived is delivered, whether or not the receiver paused. */
  #mayParse(): boolean {
    if (this.#receiver === null || this.#turns.isWaiting) return false;
    return this.#isClosed || (this.#isReceiving && !this.#isFull);
  }

  #take(chunk: Buffer): void {
    const isOnly = this.#rest === null;
    this.#rest = this.#rest === null ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#continue();
    if (isOnly && this.#rest === null && this.#socket instanceof Socket) freeChunk(chunk);
  }

  #continueLater(): void {
    process.nextTick(() => this.#continue());
  }

  #continue(): void {
    if (this.#isParsing || this.destroyed) return;
    this.#isParsing = true;
    while (this.#rest !== null && this.#mayParse()) {
      const taken = this.#parser.take(this.#rest);
      // The receiver may have ended the connection.
      if (this.#rest !== null) this.#rest = taken === this.#rest.length ? null : this.#rest.subarray(taken);
      this.#turns.endIfSpent();
    }
    this.#isParsing = false;
    this.#update();
  }

  /** Reads the socket while there is nothing left to parse, and passes its end on after the last byte. */
  #update(): void {
    if (this.destroyed) return;
    const mayRead = this.#rest === null && this.#mayParse();
    if (mayRead !== this.#isReading && !this.#isClosed) this.#setReading(mayRead);
    if (this.#rest !== null && this.#receiver !== null) return;
    if (this.#isClosed) this.destroy();
    else if (this.#hasEnded && this.#rest === null) this.#pushEnd();
  }

  #setReading(reading: boolean): void {
    this.#isReading = reading;
    // A paused socket still reads until it holds as much as its high-water mark, and so notices its end.
    if (reading) this.#socket.resume();
    else this.#socket.pause();
  }

  #ended(): void {
    this.#hasEnded = true;
    this.#update();
  }

  /** A client that ends without a close frame is gone. The library ends its side only if something is left to read or send. */
  #pushEnd(): void {
    if (this.readableEnded) return;
    if (this.readableLength + this.writableLength + this.#socket.writableLength === 0) {
      this.destroy();
      return;
    }
    this.push(null);
    // The end must not wait until the library reads.
    this.read(0);
  }

  #closed(): void {
    this.#isClosed = true;
    for (let rest: Buffer | null = this.#socket.read(); rest !== null; rest = this.#socket.read()) {
      this.#rest = this.#rest === null ? rest : Buffer.concat([this.#rest, rest]);
    }
    this.#continue();
  }
}
