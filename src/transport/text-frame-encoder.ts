/**
 * Encodes messages as text frames, as a server sends them, into one buffer. Many small messages then cost one
 * allocation and one system call. {@link textFrameHeader} is for large messages, which are not copied.
 */
export function encodeTextFrames(messages: readonly (string | Uint8Array)[]): Buffer {
  const lengths = messages.map((message) =>
    typeof message === 'string' ? Buffer.byteLength(message) : message.length,
  );
  const total = lengths.reduce((sum, length) => sum + headerLength(length) + length, 0);
  const frames = Buffer.allocUnsafe(total);
  let at = 0;
  for (const [index, message] of messages.entries()) {
    const length = lengths[index]!;
    at = writeHeader(frames, at, FINAL_BIT | TEXT, length);
    if (typeof message === 'string') frames.write(message, at);
    else frames.set(message, at);
    at += length;
  }
  return frames;
}

/** Returns the header of a whole text, or of its part: the first part and the last are marked. */
export function textFrameHeader(length: number, isFirst = true, isLast = true): Buffer {
  const header = Buffer.allocUnsafe(headerLength(length));
  writeHeader(header, 0, (isLast ? FINAL_BIT : 0) | (isFirst ? TEXT : CONTINUATION), length);
  return header;
}

const FINAL_BIT = 0x80;
const CONTINUATION = 0;
const TEXT = 1;
const LENGTH_IN_2_BYTES = 126;
const LENGTH_IN_8_BYTES = 127;

function headerLength(length: number): number {
  if (length < LENGTH_IN_2_BYTES) return 2;
  return length < 65_536 ? 4 : 10;
}

/** Returns the position after the header. */
function writeHeader(frames: Buffer, at: number, first: number, length: number): number {
  frames[at] = first;
  if (length < LENGTH_IN_2_BYTES) {
    frames[at + 1] = length;
  } else if (length < 65_536) {
    frames[at + 1] = LENGTH_IN_2_BYTES;
    frames.writeUInt16BE(length, at + 2);
  } else {
    frames[at + 1] = LENGTH_IN_8_BYTES;
    frames.writeBigUInt64BE(BigInt(length), at + 2);
  }
  return at + headerLength(length);
}
