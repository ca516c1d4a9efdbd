import { isUtf8 } from 'node:buffer';
import { LARGE_MESSAGE_BYTES } from './limits.ts';
import type { LargeMessage } from './transport.ts';
import { unmask } from './unmask.ts';

/** What becomes of what a client sends. */
export interface TextFrameEvents {
  /** A whole text that is not large, valid UTF-8. The bytes are good during the call only. */
  text(bytes: Buffer): void;
  /** A text begins that is large or comes in pieces; these go to whoever is returned. */
  begin(expectedBytes: number): LargeMessage;
  /**
   * Bytes for the websocket library, in memory of their own: frames that are no text, and what violates the protocol, which it
   * refuses in its way. Behind a violation or a close there is nothing more.
   */
  pass(bytes: Buffer): void;
}

/**
 * Takes texts out of what a client sends, whole or in fragments. Each piece of a large one is unmasked and handed on while the processor
 * still has it: the library gathers pieces, joins them, and goes over the whole again.
 */
export class TextFrameParser {
  readonly #maxMessageBytes: number;
  readonly #events: TextFrameEvents;
  /** What has come of the header of the next frame. */
  readonly #header = Buffer.alloc(MAX_HEADER_BYTES);
  #headerBytes = 0;
  /** The frame whose payload is arriving; null between frames. */
  #frame: Frame | null = null;
  /** The kind of message that goes on in the next frame that is not a control frame. */
  #unfinished: 'text' | 'other' | null = null;
  /** What all frames of the current message announced. */
  #messageBytes = 0;
  /** The text that is arriving in pieces. */
  #arriving: LargeMessage | null = null;
  #isOver = false;

  /** A message longer than `maxMessageBytes` is refused; 0 refuses none. */
  constructor(maxMessageBytes: number, events: TextFrameEvents) {
    this.#maxMessageBytes = maxMessageBytes === 0 ? Number.POSITIVE_INFINITY : maxMessageBytes;
    this.#events = events;
  }

  /** Whether a large text is arriving. */
  get expectsLarge(): boolean {
    return this.#frame?.kind === 'text' && this.#frame.left >= LARGE_MESSAGE_BYTES;
  }

  /** Takes bytes as they arrived; they may be changed, and are not looked at afterwards. */
  take(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#isOver) {
      if (this.#frame === null) at = this.#takeHeader(chunk, at);
      else if (this.#frame.kind === 'text') at = this.#takeText(this.#frame, chunk, at);
      else at = this.#passOn(this.#frame, chunk, at);
    }
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
    if (!isWellFormed(header, length) || !(isControl || this.#isInOrder(opcode))) {
      this.#refuse(this.#unfinished === 'text' ? Buffer.concat([BEGUN_TEXT, header]) : Buffer.from(header));
      return;
    }
    if (!isControl) {
      this.#messageBytes += length;
      this.#unfinished ??= opcode === Opcode.text ? 'text' : 'other';
      if (this.#messageBytes > this.#maxMessageBytes) {
        // Of what is no text the library has had all that came before.
        this.#refuse(this.#unfinished === 'text' ? textHeader(this.#messageBytes) : Buffer.from(header));
        return;
      }
    }
    const kind = isControl || this.#unfinished === 'other' ? 'other' : 'text';
    const key = Uint8Array.prototype.slice.call(header, header.length - KEY_BYTES);
    const frame: Frame = { kind, opcode, isFinal, key, position: 0, left: length };
    this.#frame = frame;
    if (kind === 'other') this.#events.pass(Buffer.from(header));
    if (length === 0) this.#end(frame);
  }

  /** Whether a frame of this kind may begin here: a message in fragments comes to its end before the next one. */
  #isInOrder(opcode: number): boolean {
    return (opcode === Opcode.continuation) === (this.#unfinished !== null);
  }

  #takeText(frame: Frame, chunk: Buffer, from: number): number {
    const piece = chunk.subarray(from, from + frame.left);
    unmask(piece, frame.key, frame.position);
    frame.position += piece.length;
    frame.left -= piece.length;
    const isWhole = frame.isFinal && frame.left === 0 && this.#arriving === null;
    if (isWhole && piece.length < LARGE_MESSAGE_BYTES) {
      this.#endText();
      if (isUtf8(piece)) this.#events.text(piece);
      else this.#refuse(INVALID_TEXT);
    } else {
      this.#arriving ??= this.#events.begin(piece.length + frame.left);
      this.#arriving.add(piece);
      if (frame.left === 0) this.#end(frame);
    }
    return from + piece.length;
  }

  #passOn(frame: Frame, chunk: Buffer, from: number): number {
    const piece = chunk.subarray(from, from + frame.left);
    frame.left -= piece.length;
    this.#events.pass(Buffer.from(piece));
    if (frame.left === 0) this.#end(frame);
    return from + piece.length;
  }

  #end(frame: Frame): void {
    this.#frame = null;
    if (frame.kind === 'text') {
      if (frame.isFinal) this.#deliver();
    } else if (frame.opcode === Opcode.close) {
      this.#isOver = true;
    } else if (frame.opcode < Opcode.close && frame.isFinal) {
      this.#unfinished = null;
      this.#messageBytes = 0;
    }
  }

  /** All of a text has come that did not come at once, or is empty. */
  #deliver(): void {
    const text = this.#arriving;
    this.#endText();
    if (text === null) this.#events.text(NOTHING);
    else if (text.isUtf8()) text.end();
    else this.#refuse(INVALID_TEXT);
  }

  #endText(): void {
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
  readonly kind: 'text' | 'other';
  readonly opcode: number;
  readonly isFinal: boolean;
  readonly key: Uint8Array;
  /** Bytes of the payload that have come, and that are still to come. */
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
/** A text of which nothing has come yet: what the library has to know to find fault with what follows. */
const BEGUN_TEXT = Buffer.of(Opcode.text, MASK_BIT, 0, 0, 0, 0);

/** Without a mask the header is at its end where the key would be. */
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

/** What holds for every frame of a client, wherever it comes. */
function isWellFormed(header: Buffer, length: number): boolean {
  const [first, second] = [header[0]!, header[1]!];
  const opcode = first & OPCODE_BITS;
  if ((first & RESERVED_BITS) !== 0 || !OPCODES.has(opcode) || (second & MASK_BIT) === 0) return false;
  if (opcode < Opcode.close) return Number.isSafeInteger(length);
  const isLengthAllowed = length <= MAX_CONTROL_BYTES && !(opcode === Opcode.close && length === 1);
  return (first & FINAL_BIT) !== 0 && isLengthAllowed;
}

/** A text that the library refuses for what it holds. */
const INVALID_TEXT = Buffer.of(FINAL_BIT | Opcode.text, MASK_BIT | 1, 0, 0, 0, 0, 0xff);

/** The header of a whole text that is not really masked. */
function textHeader(length: number): Buffer {
  const header = Buffer.alloc(MAX_HEADER_BYTES);
  header[0] = FINAL_BIT | Opcode.text;
  header[1] = MASK_BIT | LENGTH_IN_8_BYTES;
  header.writeBigUInt64BE(BigInt(length), 2);
  return header;
}
