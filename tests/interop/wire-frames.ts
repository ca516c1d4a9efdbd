import { isBinaryMessage, splitBinaryMessage } from '../../src/transport/binary-message.ts';

/** Reads the JSON messages out of one direction of a websocket connection, from its first byte on. Binary messages are without their bytes. */
export class WireFrames {
  #pending: Buffer = Buffer.alloc(0);
  #upgraded = false;
  /** The parts of a message that came in several frames. */
  #parts: Buffer[] = [];

  /** Takes the next bytes and returns the messages that they complete. */
  push(bytes: Buffer): Readonly<Record<string, unknown>>[] {
    this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes]);
    if (!this.#upgraded && !this.#skipUpgrade()) return [];
    const messages: Readonly<Record<string, unknown>>[] = [];
    for (let frame = this.#next(); frame !== null; frame = this.#next()) {
      if (frame.opcode >= FIRST_CONTROL_OPCODE) continue;
      this.#parts.push(frame.payload);
      if (!frame.final) continue;
      const message = Buffer.concat(this.#parts);
      messages.push(
        JSON.parse(isBinaryMessage(message) ? splitBinaryMessage(message).text : message.toString()),
      );
      this.#parts = [];
    }
    return messages;
  }

  #skipUpgrade(): boolean {
    const end = this.#pending.indexOf('\r\n\r\n');
    if (end < 0) return false;
    this.#pending = this.#pending.subarray(end + 4);
    this.#upgraded = true;
    return true;
  }

  #next(): { final: boolean; opcode: number; payload: Buffer } | null {
    const data = this.#pending;
    if (data.length < 2) return null;
    const [first, second] = [data.readUInt8(0), data.readUInt8(1)];
    const masked = (second & 0x80) !== 0;
    const short = second & 0x7f;
    const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0;
    const start = 2 + lengthBytes + (masked ? 4 : 0);
    if (data.length < start) return null;
    const length =
      lengthBytes === 0
        ? short
        : Number(data.readUIntBE(lengthBytes === 8 ? 4 : 2, lengthBytes === 8 ? 6 : 2));
    if (data.length < start + length) return null;
    const payload = Buffer.from(data.subarray(start, start + length));
    if (masked) {
      const mask = data.subarray(start - 4, start);
      for (let index = 0; index < length; index++) payload[index]! ^= mask[index % 4]!;
    }
    this.#pending = data.subarray(start + length);
    return { final: (first & 0x80) !== 0, opcode: first & 0x0f, payload };
  }
}

const FIRST_CONTROL_OPCODE = 8;
