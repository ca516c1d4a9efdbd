import { FrameParser } from './frame-parser.ts';
import { NEW_PEER_MESSAGE_BYTES, NEW_PEER_TURN_CREDIT, TURN_CREDIT } from './limits.ts';
import { type CountingStream, PacedStream } from './paced-stream.ts';
import type { LargeMessage } from './transport.ts';

/** Receives the messages of a frame stream. */
export interface FrameReceiver {
  /** A complete small message. Text is valid UTF-8. The bytes are valid during the call only. */
  message(bytes: Buffer, isBinary: boolean): void;
  /** A message begins that is large, fragmented or split. Its bytes go to the returned object. */
  begin(expectedBytes: number, isBinary: boolean): LargeMessage;
  /** A message is longer than `maxBytes`. The connection must be closed; nothing more arrives. */
  tooLarge(maxBytes: number): void;
}

/**
 * The server's end of a websocket connection, between its socket and the websocket library. The library does the
 * handshake, control frames and the close. It never sees a message: this stream parses messages and passes them to
 * their receiver while they arrive. Every frame and every byte of the client costs credit.
 */
export class FrameStream extends PacedStream {
  readonly #maxMessageBytes: number;
  readonly #parser: FrameParser;
  #receiver: FrameReceiver | null = null;
  #isReceiving = true;

  /** `head` has the bytes that arrived with the upgrade request. `maxMessageBytes` 0 means no limit. */
  constructor(socket: CountingStream, head: Buffer, maxMessageBytes: number) {
    super(socket, head, NEW_PEER_TURN_CREDIT);
    this.#maxMessageBytes = maxMessageBytes === 0 ? Number.POSITIVE_INFINITY : maxMessageBytes;
    this.#parser = new FrameParser(Math.min(NEW_PEER_MESSAGE_BYTES, this.#maxMessageBytes), {
      message: (bytes, isBinary) => this.#receiver?.message(bytes, isBinary),
      begin: (expectedBytes, isBinary) => this.#receiver!.begin(expectedBytes, isBinary),
      tooLarge: () => this.#receiver?.tooLarge(this.#parser.maxMessageBytes),
      pass: (bytes) => this.pass(bytes),
      spend: (cost) => this.spend(cost),
      mayContinue: () => this.mayContinue(),
    });
  }

  /** Bytes received from the client; undefined where the socket does not count them. */
  get bytesRead(): number | undefined {
    return this.socket.bytesRead;
  }

  /** Starts delivery. Must be called once. */
  open(receiver: FrameReceiver): void {
    this.#receiver = receiver;
    this.wantedChanged();
  }

  /** Lifts the limits that hold until a client has sent `initialize`. */
  trustPeer(): void {
    this.setTurnCredit(TURN_CREDIT);
    this.#parser.maxMessageBytes = this.#maxMessageBytes;
  }

  /** Stops or resumes the delivery of messages. The socket notices its end also while it is stopped. */
  setReceiving(receiving: boolean): void {
    this.#isReceiving = receiving;
    this.wantedChanged();
  }

  /** Writes whole frames to the socket, past the library. `sent` is called when the system has them. */
  writeFrames(parts: readonly Uint8Array[], sent: () => void): void {
    this.writeTogether(parts, sent);
  }

  protected override handle(chunk: Buffer): number {
    return this.#parser.take(chunk);
  }

  /** At the end of the connection everything that has arrived is delivered, whether or not the receiver paused. */
  protected override isWanted(hasEnded: boolean): boolean {
    return this.#receiver !== null && (hasEnded || this.#isReceiving);
  }
}
