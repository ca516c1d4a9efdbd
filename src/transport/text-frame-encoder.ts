/**
 * Encodes unmasked websocket text frames, as a server sends them, into one buffer. Many small messages then cost
 * one allocation and one system call. Large messages go through the websocket library, which does not copy them.
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
    at = writeHeader(frames, at, length);
    if (typeof message === 'string') frames.write(message, at);
    else frames.set(message, at);
    at += length;
  }
  return frames;
}

/** A whole message in one text frame. */
const FIN_TEXT = 0x81;
const LENGTH_IN_2_BYTES = 126;
const LENGTH_IN_8_BYTES = 127;

function headerLength(length: number): number {
  if (length < LENGTH_IN_2_BYTES) return 2;
  return length < 65_536 ? 4 : 10;
}

/** Returns the position after the header. */
function writeHeader(frames: Buffer, at: number, length: number): number {
  frames[at] = FIN_TEXT;
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
