import { isAscii, isUtf8 } from 'node:buffer';
import { LARGE_MESSAGE_BYTES, UNPROVEN_MESSAGE_BYTES } from './limits.ts';
import { unmask } from './unmask.ts';

/** What becomes of what a client sends. */
export interface TextIntakeEvents {
  /** A whole text, valid UTF-8. Below `LARGE_MESSAGE_BYTES` the bytes are good during the call only; from there on they are the owner's. */
  text(bytes: Buffer): void;
  /**
   * Bytes for the websocket library, in memory of their own: frames that are no text, and what violates the protocol, which it
   * refuses in its way. Behind a violation or a close there is nothing more.
   */
  pass(bytes: Buffer): void;
}

/**
 * Takes texts out of what a client sends, whole or in fragments. A large one is put together where it stays, each piece unmasked while
 * the processor still has it: the library gathers pieces, joins them, and goes over the whole again.
 */
export class TextIntake {
  readonly #maxMessageBytes: number;
  readonly #events: TextIntakeEvents;
  /** What has come of the header of the next frame. */
  readonly #header = Buffer.alloc(MAX_HEADER_BYTES);
  #headerBytes = 0;
  /** The frame whose payload is arriving; null between frames. */
  #frame: Frame | null = null;
  /** The kind of message that goes on in the next frame that is not a control frame. */
  #unfinished: 'text' | 'other' | null = null;
  /** What all frames of the current message announced. */
  #messageBytes = 0;
  /** The text that is arriving, and how much of it is there. */
  #text = NOTHING;
  #textBytes = 0;
  /** Whether all of it is ASCII, and need not be looked at again. */
  #isAscii = true;
  #isOver = false;

  /** A message longer than `maxMessageBytes` is refused; 0 refuses none. */
  constructor(maxMessageBytes: number, events: TextIntakeEvents) {
    this.#maxMessageBytes = maxMessageBytes === 0 ? Number.POSITIVE_INFINITY : maxMessageBytes;
    this.#events = events;
  }

  /** Where the next bytes may be put, and then told of by {@link fill}; null where they are for {@link take}. */
  get room(): Buffer | null {
    const frame = this.#frame;
    if (frame?.kind !== 'text' || this.#textBytes === 0) return null;
    this.#reserve(frame);
    return this.#text.subarray(this.#textBytes, this.#textBytes + frame.left);
  }

  /** So many bytes were put into the room. */
  fill(bytes: number): void {
    const frame = this.#frame;
    if (frame !== null) this.#arrived(frame, bytes);
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
    const isWhole = frame.isFinal && this.#textBytes === 0 && piece.length === frame.left;
    if (isWhole && piece.length < LARGE_MESSAGE_BYTES) {
      unmask(piece, frame.key, frame.position);
      this.#deliver(piece, isUtf8(piece));
    } else {
      for (let at = 0; at < piece.length; ) {
        this.#reserve(frame);
        const count = piece.copy(this.#text, this.#textBytes, at);
        this.#arrived(frame, count);
        at += count;
      }
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

  /** Bytes of the frame are in the text, behind what was there. */
  #arrived(frame: Frame, bytes: number): void {
    const piece = this.#text.subarray(this.#textBytes, this.#textBytes + bytes);
    unmask(piece, frame.key, frame.position);
    this.#isAscii &&= isAscii(piece);
    this.#textBytes += bytes;
    frame.position += bytes;
    frame.left -= bytes;
    if (frame.left === 0) this.#end(frame);
  }

  #end(frame: Frame): void {
    this.#frame = null;
    if (frame.kind === 'text') {
      const text = this.#text.subarray(0, this.#textBytes);
      if (frame.isFinal) this.#deliver(text, this.#isAscii || isUtf8(text));
    } else if (frame.opcode === Opcode.close) {
      this.#isOver = true;
    } else if (frame.opcode < Opcode.close && frame.isFinal) {
      this.#unfinished = null;
      this.#messageBytes = 0;
    }
  }

  #deliver(bytes: Buffer, isValid: boolean): void {
    this.#frame = null;
    this.#unfinished = null;
    this.#messageBytes = 0;
    this.#text = NOTHING;
    this.#textBytes = 0;
    this.#isAscii = true;
    if (isValid) this.#events.text(bytes);
    else this.#refuse(Buffer.concat([textHeader(bytes.length), bytes]));
  }

  /** Makes room for bytes of the frame where there is none. */
  #reserve(frame: Frame): void {
    if (this.#textBytes < this.#text.length) return;
    const wanted = this.#textBytes + frame.left;
    const isProven = this.#textBytes >= UNPROVEN_MESSAGE_BYTES;
    const grown = frame.isFinal ? wanted : Math.max(wanted, this.#text.length * 2);
    const larger = Buffer.allocUnsafeSlow(isProven ? grown : Math.min(grown, UNPROVEN_MESSAGE_BYTES));
    this.#text.copy(larger, 0, 0, this.#textBytes);
    this.#text = larger;
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

/** The header of a whole text that is not really masked. */
function textHeader(length: number): Buffer {
  const header = Buffer.alloc(MAX_HEADER_BYTES);
  header[0] = FINAL_BIT | Opcode.text;
  header[1] = MASK_BIT | LENGTH_IN_8_BYTES;
  header.writeBigUInt64BE(BigInt(length), 2);
  return header;
}
