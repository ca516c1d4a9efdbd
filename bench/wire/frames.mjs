// Websocket framing for the measuring client: no copy of a contiguous frame, and no masking during the measurement.

export const Opcode = Object.freeze({ continuation: 0, text: 1, close: 8, ping: 9, pong: 10 });

const FINAL = 0x80;
const MASKED = 0x80;
const MASK_BYTES = 4;
const INITIAL_CARRY_BYTES = 256 * 1024;
/** Bytes of a message that suffice to identify its request. */
const PEEK_BYTES = 64;
const MAX_FRAME_BYTES = 256 * 1024 * 1024;

/**
 * One frame from a client. The masking key is zero, which is valid and does not change the payload.
 * @param {number} opcode
 * @param {string | Uint8Array} payload
 */
export function encodeFrame(opcode, payload) {
  const bytes = typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length;
  const { frame, at } = beginFrame(opcode, bytes, bytes);
  frame.fill(0, at - MASK_BYTES, at);
  if (typeof payload === 'string') frame.write(payload, at);
  else frame.set(payload, at);
  return frame;
}

const TAIL_KEY = [0x5a, 0xc3, 0x17, 0x8e];

/**
 * The end of a large message, masked once and sent many times. Servers may skip a key of zero, which no real client sends. For large
 * payloads unmasking must be part of the measured work.
 */
export class MaskedTail {
  bytes;

  /** @param {string} text ASCII. */
  constructor(text) {
    this.bytes = mask(Buffer.from(text, 'latin1'), TAIL_KEY);
  }

  /** All of the frame that goes before these bytes. Its key is the one that fits them at their place. @param {string} head */
  encodeStart(head) {
    const bytes = Buffer.from(head);
    const { frame, at } = beginFrame(Opcode.text, bytes.length + this.bytes.length, bytes.length);
    const key = TAIL_KEY.map((_, i) => TAIL_KEY[(i + 3 * bytes.length) % MASK_BYTES]);
    frame.set(key, at - MASK_BYTES);
    frame.set(mask(bytes, key), at);
    return frame;
  }
}

/** A frame of `payloadBytes` with space for the first `heldBytes` of them; the key goes before `at`. */
function beginFrame(opcode, payloadBytes, heldBytes) {
  const lengthBytes = payloadBytes < 126 ? 0 : payloadBytes < 65_536 ? 2 : 8;
  const at = 2 + lengthBytes + MASK_BYTES;
  const frame = Buffer.allocUnsafe(at + heldBytes);
  frame[0] = FINAL | opcode;
  frame[1] = MASKED | (lengthBytes === 0 ? payloadBytes : lengthBytes === 2 ? 126 : 127);
  if (lengthBytes === 2) frame.writeUInt16BE(payloadBytes, 2);
  if (lengthBytes === 8) frame.writeBigUInt64BE(BigInt(payloadBytes), 2);
  return { frame, at };
}

function mask(bytes, key) {
  for (let i = 0; i < bytes.length; i++) bytes[i] ^= key[i % MASK_BYTES];
  return bytes;
}

/** Bytes of the header that starts at `at`, or 0 while too little of it has arrived. */
function headerBytesAt(bytes, at, end) {
  if (end - at < 2) return 0;
  const length = bytes[at + 1] & 0x7f;
  const needed = length < 126 ? 2 : length === 126 ? 4 : 10;
  return end - at < needed ? 0 : needed;
}

function payloadBytesAt(bytes, at) {
  const length = bytes[at + 1] & 0x7f;
  if (length < 126) return length;
  if (length === 126) return bytes.readUInt16BE(at + 2);
  const long = Number(bytes.readBigUInt64BE(at + 2));
  if (long > MAX_FRAME_BYTES) throw new Error(`the server announced a frame of ${long} bytes`);
  return long;
}

/**
 * @typedef {object} Pieces Takes messages that do not lie in one piece, as they arrive.
 * @property {(bytes: Buffer, start: number, end: number) => boolean} wants Whether the message that begins so is to be handed over in pieces.
 * @property {(bytes: Buffer, start: number, end: number, last: boolean) => void} take
 */

/**
 * Parses the bytes of a server as they arrive and delivers whole messages. The bytes are valid only during the call. Frames that span
 * two reads are assembled in a reused buffer, unless a sink takes them in pieces.
 */
export class FrameReader {
  #deliver;
  #pieces;
  #carry = Buffer.allocUnsafeSlow(INITIAL_CARRY_BYTES);
  #carried = 0;
  /** Parts of a fragmented message. */
  #parts = [];
  #partsOpcode = 0;
  /** Whether the current message goes out in pieces, and how much of its current frame is still to come. */
  #passing = false;
  #rest = 0;
  #restIsFinal = false;
  frames = 0;

  /**
   * @param {(opcode: number, bytes: Buffer, start: number, end: number) => void} deliver
   * @param {Pieces} pieces
   */
  constructor(deliver, pieces) {
    this.#deliver = deliver;
    this.#pieces = pieces;
  }

  /** @param {Buffer} bytes @param {number} from @param {number} end */
  feed(bytes, from, end) {
    let at = from;
    while (at < end) {
      if (this.#rest > 0) at += this.#pass(bytes, at, end);
      else if (this.#carried > 0) at += this.#take(bytes, at, end);
      else at += this.#begin(bytes, at, end);
    }
  }

  /** A frame begins at `at`. Returns how much of it was consumed. */
  #begin(bytes, at, end) {
    const header = headerBytesAt(bytes, at, end);
    if (header === 0) return this.#take(bytes, at, end);
    const payload = at + header;
    const frameEnd = payload + payloadBytesAt(bytes, at);
    if (frameEnd <= end) {
      this.#frame(bytes, at, payload, frameEnd);
      return frameEnd - at;
    }
    if (!this.#goesInPieces(bytes, at, payload, end)) return this.#take(bytes, at, end);
    this.#startPassing(bytes, at, frameEnd - payload);
    return header;
  }

  /** Whether the incomplete frame at `at` goes to a sink in pieces. */
  #goesInPieces(bytes, at, payload, end) {
    const opcode = bytes[at] & 0x0f;
    if (this.#passing) return opcode === Opcode.continuation;
    return opcode === Opcode.text && end - payload >= PEEK_BYTES && this.#pieces.wants(bytes, payload, end);
  }

  #startPassing(bytes, at, payloadBytes) {
    this.frames++;
    this.#passing = true;
    this.#rest = payloadBytes;
    this.#restIsFinal = (bytes[at] & FINAL) !== 0;
  }

  #pass(bytes, at, end) {
    const taken = Math.min(this.#rest, end - at);
    this.#rest -= taken;
    const last = this.#rest === 0 && this.#restIsFinal;
    if (last) this.#passing = false;
    this.#pieces.take(bytes, at, at + taken, last);
    return taken;
  }

  /** Appends to the incomplete frame and delivers it once it is complete. Returns how many bytes it consumed. */
  #take(bytes, at, end) {
    const header = headerBytesAt(this.#carry, 0, this.#carried);
    // One byte at a time until the header is complete; this happens only where a read ends within a header.
    const total = header === 0 ? this.#carried + 1 : header + payloadBytesAt(this.#carry, 0);
    const peeking = header > 0 && this.#carried < header + PEEK_BYTES && header + PEEK_BYTES < total;
    const taken = Math.min((peeking ? header + PEEK_BYTES : total) - this.#carried, end - at);
    this.#reserve(this.#carried + taken, total);
    bytes.copy(this.#carry, this.#carried, at, at + taken);
    this.#carried += taken;
    const known = headerBytesAt(this.#carry, 0, this.#carried);
    if (known === 0) return taken;
    const size = this.#carried;
    const payloadBytes = payloadBytesAt(this.#carry, 0);
    if (size === known + payloadBytes) {
      this.#carried = 0;
      this.#frame(this.#carry, 0, known, size);
    } else if (peeking && this.#goesInPieces(this.#carry, 0, known, size)) {
      this.#carried = 0;
      this.#startPassing(this.#carry, 0, payloadBytes);
      this.#pass(this.#carry, known, size);
    }
    return taken;
  }

  #reserve(needed, total) {
    if (needed <= this.#carry.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(total, this.#carry.length * 2));
    this.#carry.copy(grown, 0, 0, this.#carried);
    this.#carry = grown;
  }

  #frame(bytes, at, payload, end) {
    this.frames++;
    const opcode = bytes[at] & 0x0f;
    const final = (bytes[at] & FINAL) !== 0;
    if (opcode >= Opcode.close) {
      this.#deliver(opcode, bytes, payload, end);
    } else if (this.#passing) {
      this.#passing = !final;
      this.#pieces.take(bytes, payload, end, final);
    } else if (final && this.#parts.length === 0) {
      this.#deliver(opcode, bytes, payload, end);
    } else if (this.#parts.length === 0 && this.#pieces.wants(bytes, payload, end)) {
      this.#passing = true;
      this.#pieces.take(bytes, payload, end, false);
    } else this.#fragment(opcode, final, bytes, payload, end);
  }

  #fragment(opcode, final, bytes, payload, end) {
    if (this.#parts.length === 0) this.#partsOpcode = opcode;
    this.#parts.push(Buffer.from(bytes.subarray(payload, end)));
    if (!final) return;
    const whole = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#deliver(this.#partsOpcode, whole, 0, whole.length);
  }
}
