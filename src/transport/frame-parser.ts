import { isUtf8 } from 'node:buffer';
import { FRAME_COST, LARGE_MESSAGE_BYTES } from './limits.ts';
import type { LargeMessage } from './transport.ts';
import { unmask } from './unmask.ts';

/** Callbacks of the parser. */
interface FrameEvents {
  /** A complete small message. Text is valid UTF-8. The bytes are valid during the call only. */
  message(bytes: Buffer, isBinary: boolean): void;
  /** A message begins that is large, fragmented or split. Its bytes go to the returned object. */
  begin(expectedBytes: number, isBinary: boolean): LargeMessage;
  /** A message exceeds {@link FrameParser.maxMessageBytes}. Nothing follows it. */
  tooLarge(): void;
  /**
   * Bytes for the websocket library: control frames, and protocol violations, which the library refuses. Nothing
   * follows a violation or a close. The receiver owns the bytes.
   */
  pass(bytes: Buffer): void;
  /** Called for every frame and every piece of one, before it is handled. */
  spend(cost: number): void;
  /** Whether the parser may continue with the next frame or piece. */
  mayContinue(): boolean;
}

/**
 * Parses messages, whole or fragmented, out of a client's byte stream. Each chunk of a large message is unmasked
 * and passed on while it is in the processor's cache. The library would collect the chunks, join them, and process
 * the whole again.
 */
export class FrameParser {
  /** Longer messages are refused. */
  maxMessageBytes: number;
  readonly #events: FrameEvents;
  /** The received part of the next frame's header. */
  readonly #header = Buffer.allocUnsafe(MAX_HEADER_BYTES);
  #headerBytes = 0;
  /** The frame whose payload is arriving; null between frames. */
  #frame: Frame | null = null;
  /** The type of the fragmented message that the next data frame continues. */
  #unfinished: 'text' | 'binary' | null = null;
  /** Total length of all frames of the current message so far. */
  #messageBytes = 0;
  /** The message that is arriving in chunks. */
  #arriving: LargeMessage | null = null;
  #isOver = false;

  constructor(maxMessageBytes: number, events: FrameEvents) {
    this.maxMessageBytes = maxMessageBytes;
    this.#events = events;
  }

  /**
   * Parses received bytes as far as `mayContinue` allows. Returns how many were parsed. It may modify them, and
   * passes parts of them on.
   */
  take(chunk: Buffer): number {
    let at = 0;
    while (at < chunk.length && !this.#isOver && this.#events.mayContinue()) {
      if (this.#frame === null) at = this.#takeHeader(chunk, at);
      else if (this.#frame.isControl) at = this.#passOn(this.#frame, chunk, at);
      else at = this.#takeData(this.#frame, chunk, at);
    }
    return this.#isOver ? chunk.length : at;
  }

  #takeHeader(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      this.#header[this.#headerBytes++] = chunk[at++]!;
      if (this.#headerBytes >= 2 && this.#headerBytes === headerLength(this.#header)) {
        const header = this.#header.subarray(0, this.#headerBytes);
        this.#headerBytes = 0;
        this.#begin(header);
        break;
      }
    }
    return at;
  }

  #begin(header: Buffer): void {
    const opcode = header[0]! & OPCODE_BITS;
    const isFinal = (header[0]! & FINAL_BIT) !== 0;
    const length = payloadLength(header);
    const isControl = opcode >= Opcode.close;
    this.#events.spend(FRAME_COST);
    if (!isWellFormed(header, length) || !(isControl || this.#isInOrder(opcode))) {
      this.#refuse(this.#unfinished === null ? Buffer.from(header) : Buffer.concat([BEGUN_TEXT, header]));
      return;
    }
    if (!isControl) {
      this.#messageBytes += length;
      this.#unfinished ??= opcode === Opcode.text ? 'text' : 'binary';
      if (this.#messageBytes > this.maxMessageBytes) {
        this.#events.tooLarge();
        this.#refuse(INVALID_TEXT);
        return;
      }
    }
    const key = Uint8Array.prototype.slice.call(header, header.length - KEY_BYTES);
    const frame: Frame = { isControl, opcode, isFinal, key, position: 0, left: length };
    this.#frame = frame;
    if (isControl) this.#events.pass(Buffer.from(header));
    if (length === 0) this.#end(frame);
  }

  /** Whether a frame of this kind may start here: a fragmented message must end before the next one. */
  #isInOrder(opcode: number): boolean {
    return (opcode === Opcode.continuation) === (this.#unfinished !== null);
  }

  #takeData(frame: Frame, chunk: Buffer, from: number): number {
    const piece = chunk.subarray(from, from + frame.left);
    this.#events.spend(piece.length);
    unmask(piece, frame.key, frame.position);
    frame.position += piece.length;
    frame.left -= piece.length;
    const isBinary = this.#unfinished === 'binary';
    const isWhole = frame.isFinal && frame.left === 0 && this.#arriving === null;
    if (isWhole && piece.length < LARGE_MESSAGE_BYTES) {
      this.#endMessage();
      if (isBinary || isUtf8(piece)) this.#events.message(piece, isBinary);
      else this.#refuse(INVALID_TEXT);
    } else {
      this.#arriving ??= this.#events.begin(piece.length + frame.left, isBinary);
      this.#arriving.add(piece);
      if (frame.left === 0) this.#end(frame);
    }
    return from + piece.length;
  }

  #passOn(frame: Frame, chunk: Buffer, from: number): number {
    const piece = chunk.subarray(from, from + frame.left);
    frame.left -= piece.length;
    // A copy, because the library may keep it, and with it the whole chunk.
    this.#events.pass(Buffer.from(piece));
    if (frame.left === 0) this.#end(frame);
    return from + piece.length;
  }

  #end(frame: Frame): void {
    this.#frame = null;
    if (frame.opcode === Opcode.close) this.#isOver = true;
    else if (!frame.isControl && frame.isFinal) this.#deliver();
  }

  /** Delivers a message that arrived in several chunks, or is empty. */
  #deliver(): void {
    const message = this.#arriving;
    const isBinary = this.#unfinished === 'binary';
    this.#endMessage();
    if (message === null) this.#events.message(NOTHING, isBinary);
    else if (isBinary || message.isUtf8()) message.end();
    else this.#refuse(INVALID_TEXT);
  }

  #endMessage(): void {
    this.#frame = null;
    this.#unfinished = null;
    this.#messageBytes = 0;
    this.#arriving = null;
  }

  #refuse(bytes: Buffer): void {
    this.#isOver = true;
    this.#events.pass(bytes);
  }
}

interface Frame {
  readonly isControl: boolean;
  readonly opcode: number;
  readonly isFinal: boolean;
  readonly key: Uint8Array;
  /** Bytes of the payload received so far, and still missing. */
  position: number;
  left: number;
}

const Opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
const OPCODES: ReadonlySet<number> = new Set(Object.values(Opcode));

const FINAL_BIT = 0x80;
const RESERVED_BITS = 0x70;
const OPCODE_BITS = 0x0f;
const MASK_BIT = 0x80;
const LENGTH_BITS = 0x7f;
const LENGTH_IN_2_BYTES = 126;
const LENGTH_IN_8_BYTES = 127;
const KEY_BYTES = 4;
const MAX_HEADER_BYTES = 14;
const MAX_CONTROL_BYTES = 125;

const NOTHING = Buffer.alloc(0);
/** A fragmented message without content. The library needs it to detect the violation that follows. */
const BEGUN_TEXT = Buffer.of(Opcode.text, MASK_BIT, 0, 0, 0, 0);

/** Without a mask, the header ends where the key would start. */
function headerLength(header: Buffer): number {
  const length = header[1]! & LENGTH_BITS;
  const lengthBytes = length === LENGTH_IN_2_BYTES ? 2 : length === LENGTH_IN_8_BYTES ? 8 : 0;
  return 2 + lengthBytes + ((header[1]! & MASK_BIT) === 0 ? 0 : KEY_BYTES);
}

function payloadLength(header: Buffer): number {
  const length = header[1]! & LENGTH_BITS;
  if (length === LENGTH_IN_2_BYTES) return header.readUInt16BE(2);
  return length === LENGTH_IN_8_BYTES ? Number(header.readBigUInt64BE(2)) : length;
}

/** Checks the rules that hold for every frame of a client. */
function isWellFormed(header: Buffer, length: number): boolean {
  const [first, second] = [header[0]!, header[1]!];
  const opcode = first & OPCODE_BITS;
  if ((first & RESERVED_BITS) !== 0 || !OPCODES.has(opcode) || (second & MASK_BIT) === 0) return false;
  if (opcode < Opcode.close) return Number.isSafeInteger(length);
  const isLengthAllowed = length <= MAX_CONTROL_BYTES && !(opcode === Opcode.close && length === 1);
  return (first & FINAL_BIT) !== 0 && isLengthAllowed;
}

/** An invalid text, which makes the library end the connection. */
const INVALID_TEXT = Buffer.of(FINAL_BIT | Opcode.text, MASK_BIT | 1, 0, 0, 0, 0, 0xff);
