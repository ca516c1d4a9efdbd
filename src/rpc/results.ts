import type { RequestId } from '../protocol/envelope.ts';
import { encodeBinaryHead } from '../transport/binary-message.ts';
import { FixedBufferPool } from '../transport/buffer-pool.ts';
import type { BytesMessage } from '../transport/transport.ts';
import { base64Length, writeBase64 } from './base64.ts';
import {
  POOLED_RESULT_BYTES,
  POOLED_RESULT_MIN_BYTES,
  POOLED_RESULTS_MAX,
  STREAM_BLOCK_BYTES,
  STREAM_POOLED_BUFFERS,
} from './limits.ts';
import type { MessageStream, StreamPart } from './outbox.ts';

/** A result that its handler has already encoded as JSON, because it has a faster way. */
export class EncodedResult {
  readonly json: string;
  /** Called when the response is in the outbox. Messages that are sent from here on follow it on the wire. */
  readonly afterSent: (() => void) | undefined;

  constructor(json: string, afterSent?: () => void) {
    this.json = json;
    this.afterSent = afterSent;
  }
}

/** A result whose largest part its handler has already encoded as JSON bytes. */
export class BytesResult {
  readonly before: string;
  readonly bytes: Uint8Array;
  readonly after: string;

  constructor(before: string, bytes: Uint8Array, after: string) {
    this.before = before;
    this.bytes = bytes;
    this.after = after;
  }
}

/**
 * A result with one large base64 member: the JSON before the base64 text, the bytes, and the JSON after it. It
 * never becomes a string.
 */
export class Base64Result {
  readonly before: string;
  readonly bytes: Uint8Array;
  readonly after: string;
  readonly hooks: Base64ResultHooks;

  constructor(before: string, bytes: Uint8Array, after: string, hooks: Base64ResultHooks = {}) {
    this.before = before;
    this.bytes = bytes;
    this.after = after;
    this.hooks = hooks;
  }
}

interface Base64ResultHooks {
  /** Called when the bytes are encoded or sent, or the result is refused. They may then be overwritten. */
  readonly release?: () => void;
  /** Called when the response is in the outbox. Messages that are sent from here on follow it on the wire. */
  readonly afterSent?: () => void;
}

/** The source of the bytes of a {@link StreamedResult}. */
export interface ByteSource {
  /** Fills `buffer` with the next bytes. A short read means the end. */
  read(buffer: Buffer): Promise<number>;
  close(): Promise<void>;
}

/** A {@link Base64Result} whose bytes are read while it is sent, so that its size does not occupy memory. */
export class StreamedResult {
  readonly before: string;
  /** Bytes that were already read; their number is a multiple of three. */
  readonly first: Buffer;
  readonly rest: ByteSource;
  readonly after: string;
  /** The expected number of bytes. */
  readonly expectedBytes: number;

  constructor(before: string, first: Buffer, rest: ByteSource, after: string, expectedBytes = first.length) {
    this.before = before;
    this.first = first;
    this.rest = rest;
    this.after = after;
    this.expectedBytes = expectedBytes;
  }
}

/** What a handler may return: a result of the schema's type, or one in a cheaper form. */
export type HandlerResult<Result> = Result | EncodedResult | BytesResult | Base64Result | StreamedResult;

/** Encodes the response with a {@link Base64Result}, in a buffer that may be reused after its release. */
export function encodeBase64Result(id: RequestId, result: Base64Result): StreamPart {
  const { before, bytes, after } = result;
  const head = Buffer.from(`{"id":${id},"result":${before}`);
  const tail = Buffer.from(`${after}}`);
  const length = head.length + base64Length(bytes.length) + tail.length;
  const frame = length < POOLED_RESULT_MIN_BYTES ? Buffer.allocUnsafe(length) : RESULTS.take(length);
  head.copy(frame);
  writeBase64(frame, head.length, bytes, tail);
  return { bytes: frame.subarray(0, length), released: () => RESULTS.give(frame) };
}

/** Returns the response with a {@link Base64Result} as a binary message. Its bytes are those of the result. */
export function binaryResult(id: RequestId, { before, bytes, after }: Base64Result): BytesMessage {
  return { text: resultText(id, before, after), bytes };
}

/** Encodes the response with a {@link BytesResult}. */
export function encodeBytesResult(id: RequestId, { before, bytes, after }: BytesResult): Buffer {
  return Buffer.concat([Buffer.from(`{"id":${id},"result":${before}`), bytes, Buffer.from(`${after}}`)]);
}

/** Encodes the response with a {@link StreamedResult}. Does not close the source. */
export function streamResult(id: RequestId, result: StreamedResult): MessageStream {
  return {
    parts: streamParts(Buffer.from(`{"id":${id},"result":${result.before}`), result, encodePart),
    last: Buffer.from(`${result.after}}`),
    keptBytes: result.first.length,
  };
}

/** Like {@link streamResult}, as a binary message. */
export function streamBinaryResult(id: RequestId, result: StreamedResult): MessageStream {
  const head = encodeBinaryHead(resultText(id, result.before, result.after));
  const unchanged = (bytes: Uint8Array, released?: () => void) => ({ bytes, ...(released && { released }) });
  return {
    parts: streamParts(head, result, unchanged),
    last: NOTHING,
    keptBytes: result.first.length,
    isBinary: true,
  };
}

function resultText(id: RequestId, before: string, after: string): string {
  return `{"id":${id},"result":${before}${after}}`;
}

/** Turns bytes into a part. The bytes may be overwritten after `released` was called. */
type EncodePart = (bytes: Uint8Array, released?: () => void) => StreamPart;

/** Reads into pooled buffers, and the next block while one is being sent. */
async function* streamParts(
  head: Uint8Array,
  { first, rest }: StreamedResult,
  encode: EncodePart,
): AsyncGenerator<StreamPart> {
  let block = BLOCKS.take(STREAM_BLOCK_BYTES);
  let next = readAhead(rest, block);
  yield { bytes: head };
  yield encode(first);
  for (;;) {
    const length = await next;
    const read = block;
    const ended = length < read.length;
    if (!ended) {
      block = BLOCKS.take(STREAM_BLOCK_BYTES);
      next = readAhead(rest, block);
    }
    if (length > 0) yield encode(read.subarray(0, length), () => BLOCKS.give(read));
    if (ended) return;
  }
}

/** Starts a read. An error surfaces where the block is used, which may be later or never. */
function readAhead(source: ByteSource, block: Buffer): Promise<number> {
  const reading = source.read(block);
  reading.catch(() => {});
  return reading;
}

const RESULTS = new FixedBufferPool(POOLED_RESULT_BYTES, POOLED_RESULTS_MAX);
const PARTS = new FixedBufferPool(base64Length(STREAM_BLOCK_BYTES), STREAM_POOLED_BUFFERS);
const BLOCKS = new FixedBufferPool(STREAM_BLOCK_BYTES, STREAM_POOLED_BUFFERS);
const NOTHING = new Uint8Array(0);

function encodePart(bytes: Uint8Array, encoded?: () => void): StreamPart {
  const buffer = PARTS.take(base64Length(bytes.length));
  const end = writeBase64(buffer, 0, bytes, NOTHING);
  encoded?.();
  return { bytes: buffer.subarray(0, end), released: () => PARTS.give(buffer) };
}
