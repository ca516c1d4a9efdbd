// Websocket framing for the measuring client: no copies where a frame lies in one piece, no masking work.

export const Opcode = Object.freeze({ continuation: 0, text: 1, close: 8, ping: 9, pong: 10 });

const FINAL = 0x80;
const MASKED = 0x80;
const INITIAL_CARRY_BYTES = 256 * 1024;
const MAX_FRAME_BYTES = 256 * 1024 * 1024;

/**
 * One frame from a client. The masking key is zero, which is valid and leaves the payload as it is.
 * @param {number} opcode
 * @param {string | Uint8Array} payload
 */
export function encodeFrame(opcode, payload) {
  const bytes = typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length;
  const lengthBytes = bytes < 126 ? 0 : bytes < 65_536 ? 2 : 8;
  const headerBytes = 2 + lengthBytes + 4;
  const frame = Buffer.allocUnsafe(headerBytes + bytes);
  frame[0] = FINAL | opcode;
  frame[1] = MASKED | (lengthBytes === 0 ? bytes : lengthBytes === 2 ? 126 : 127);
  if (lengthBytes === 2) frame.writeUInt16BE(bytes, 2);
  if (lengthBytes === 8) frame.writeBigUInt64BE(BigInt(bytes), 2);
  frame.fill(0, 2 + lengthBytes, headerBytes);
  if (typeof payload === 'string') frame.write(payload, headerBytes);
  else frame.set(payload, headerBytes);
  return frame;
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
 * Takes the bytes of a server as they arrive and hands out whole messages. The bytes are valid only during the call. Frames that span two reads are put together in a buffer that is used again.
 */
export class FrameReader {
  #deliver;
  #carry = Buffer.allocUnsafeSlow(INITIAL_CARRY_BYTES);
  #carried = 0;
  /** Parts of a fragmented message. */
  #parts = [];
  #partsOpcode = 0;
  frames = 0;

  /** @param {(opcode: number, bytes: Buffer, start: number, end: number) => void} deliver */
  constructor(deliver) {
    this.#deliver = deliver;
  }

  /** @param {Buffer} bytes @param {number} from @param {number} end */
  feed(bytes, from, end) {
    let at = from;
    while (at < end) {
      if (this.#carried === 0) {
        const header = headerBytesAt(bytes, at, end);
        if (header > 0) {
          const frameEnd = at + header + payloadBytesAt(bytes, at);
          if (frameEnd <= end) {
            this.#frame(bytes, at, at + header, frameEnd);
            at = frameEnd;
            continue;
          }
        }
      }
      at += this.#take(bytes, at, end);
    }
  }

  /** Adds to the carried frame what it still needs, and delivers it once it is whole. Returns how much it took. */
  #take(bytes, at, end) {
    const header = headerBytesAt(this.#carry, 0, this.#carried);
    // Without a whole header one byte at a time: this happens only where a read ends within a header.
    const total = header === 0 ? this.#carried + 1 : header + payloadBytesAt(this.#carry, 0);
    const taken = Math.min(total - this.#carried, end - at);
    this.#reserve(this.#carried + taken, total);
    bytes.copy(this.#carry, this.#carried, at, at + taken);
    this.#carried += taken;
    const known = headerBytesAt(this.#carry, 0, this.#carried);
    if (known > 0 && this.#carried === known + payloadBytesAt(this.#carry, 0)) {
      const size = this.#carried;
      this.#carried = 0;
      this.#frame(this.#carry, 0, known, size);
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
    if (opcode >= Opcode.close || (final && this.#parts.length === 0)) {
      this.#deliver(opcode, bytes, payload, end);
      return;
    }
    if (this.#parts.length === 0) this.#partsOpcode = opcode;
    this.#parts.push(Buffer.from(bytes.subarray(payload, end)));
    if (!final) return;
    const whole = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#deliver(this.#partsOpcode, whole, 0, whole.length);
  }
}
