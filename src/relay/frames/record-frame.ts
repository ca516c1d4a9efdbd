import type { DataBody } from './frame.ts';

/** A frame with one record and without trace context. */
interface RecordFrame {
  readonly streamId: string;
  readonly ack: number;
  readonly ackBits: number;
  readonly body: DataBody;
}

/**
 * Encodes a record to the same bytes as the protobuf library. Nearly all bytes of a relay are in such frames, and this encoder copies
 * each of them once.
 */
export function encodeRecord({ streamId, ack, ackBits, body }: RecordFrame): Uint8Array {
  const { seq, payload, segment } = body;
  const index = segment?.index ?? 0;
  const count = segment?.count ?? 1;
  const nameBytes = Buffer.byteLength(streamId);
  const numbersBytes = numberBytes(seq) + numberBytes(index) + numberBytes(count);
  const dataBytes = numbersBytes + 1 + varintBytes(payload.length) + payload.length;
  const head = VERSION.length + (nameBytes === 0 ? 0 : 1 + varintBytes(nameBytes) + nameBytes);
  const total = head + numberBytes(ack) + numberBytes(ackBits) + 1 + varintBytes(dataBytes) + dataBytes;
  const frame = Buffer.allocUnsafe(total);
  let at = put(frame, 0, VERSION);
  if (nameBytes > 0) {
    at = putVarint(frame, putByte(frame, at, Tag.streamId), nameBytes);
    at += frame.write(streamId, at);
  }
  at = putNumber(frame, at, Tag.ack, ack);
  at = putNumber(frame, at, Tag.ackBits, ackBits);
  at = putVarint(frame, putByte(frame, at, Tag.data), dataBytes);
  at = putNumber(frame, at, Tag.seq, seq);
  at = putNumber(frame, at, Tag.segmentIndex, index);
  at = putNumber(frame, at, Tag.segmentCount, count);
  at = putVarint(frame, putByte(frame, at, Tag.payload), payload.length);
  put(frame, at, payload);
  return frame;
}

/** Protobuf tags: field number and wire type. Those from `seq` on are fields of the nested record. */
const Tag = {
  streamId: 0x12,
  ack: 0x18,
  ackBits: 0x20,
  data: 0x2a,
  seq: 0x08,
  segmentIndex: 0x10,
  segmentCount: 0x18,
  payload: 0x22,
} as const;

/** The field `version`. */
const VERSION = Buffer.of(0x08, 1);

/** Protobuf omits a zero. */
function numberBytes(value: number): number {
  return value === 0 ? 0 : 1 + varintBytes(value);
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes++;
  return bytes;
}

function put(frame: Buffer, at: number, bytes: Uint8Array): number {
  frame.set(bytes, at);
  return at + bytes.length;
}

function putByte(frame: Buffer, at: number, byte: number): number {
  return frame.writeUInt8(byte, at);
}

function putNumber(frame: Buffer, at: number, tag: number, value: number): number {
  return value === 0 ? at : putVarint(frame, putByte(frame, at, tag), value);
}

function putVarint(frame: Buffer, at: number, value: number): number {
  let [end, rest] = [at, value];
  for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) end = putByte(frame, end, (rest % 0x80) | 0x80);
  return putByte(frame, end, rest);
}
