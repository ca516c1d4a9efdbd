import { BATCH_BYTES, FRAME_CONTENT_BYTES, MESSAGE_HEAD_BYTES } from '../limits.ts';

/**
 * The protocol between a server and its file helper. A message has a kind, an operation number, a JSON head and binary content. It is sent
 * as one frame, or as several if its content is long. Frames of other messages may come in between:
 *
 *     u32 length of what follows, u8 kind, u32 operation
 *     first frame:  u32 length of the head, u32 length of all content, head, content
 *     later frames: content
 */
export const MessageKind = {
  /** Server to helper: start an operation. */
  request: 1,
  /** Server to helper: cancel the operation. */
  abort: 2,
  /** Helper to server: the operation succeeded. */
  answer: 3,
  /** Helper to server: the operation failed. */
  failure: 4,
  /** Helper to server: the operation waits for another process. */
  waiting: 5,
} as const;

export type MessageKind = (typeof MessageKind)[keyof typeof MessageKind];

export interface Message {
  readonly kind: MessageKind;
  readonly operation: number;
  readonly head: unknown;
  readonly content: Buffer;
}

/** An invalid frame. The sender must not be trusted any further. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

/** Writes bytes in call order. `done` runs when the system has accepted them, or with an error. */
export interface ByteSink {
  write(bytes: Uint8Array, done: (error: Error | null) => void): void;
}

/** Encodes messages as frames. Long messages take turns. Applies the back-pressure of the sink. */
export class FrameWriter {
  readonly #sink: ByteSink;
  readonly #onFailure: (error: Error) => void;
  #queue: OutgoingMessage[] = [];
  #queuedBytes = 0;
  #writing = false;
  #onProgress: (() => void) | null = null;
  /** Operations with bytes in the current write. */
  readonly #underWay = new Set<number>();
  #awaited: { readonly operation: number; readonly done: () => void }[] = [];

  constructor(sink: ByteSink, onFailure: (error: Error) => void) {
    this.#sink = sink;
    this.#onFailure = onFailure;
  }

  /** Bytes of messages that were not passed to the sink yet. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  /** The content must not change before it is sent; see {@link onceSent}. */
  send(kind: MessageKind, operation: number, head: unknown, content: Uint8Array = NOTHING): void {
    const text = Buffer.from(JSON.stringify(head));
    if (text.length > MESSAGE_HEAD_BYTES) throw new FrameError('the head of a message is too long');
    this.#queue.push({ kind, operation, head: text, content, sent: 0 });
    this.#queuedBytes += text.length + content.length;
    if (!this.#writing) this.#write();
  }

  /** Calls `listener` once, when fewer bytes are queued than now. */
  onceProgressed(listener: () => void): void {
    this.#onProgress = listener;
  }

  /** Calls `done` when the request or the answer of the operation is sent completely. The answer to a request may arrive earlier. */
  onceSent(operation: number, done: () => void): void {
    if (this.#isUnsent(operation)) this.#awaited.push({ operation, done });
    else done();
  }

  #write(): void {
    const batch = this.#takeBatch();
    const last = batch.pop();
    if (last === undefined) return;
    this.#writing = true;
    for (const part of batch) this.#sink.write(part, () => {});
    this.#sink.write(last, (error) => {
      if (error !== null) this.#fail(error);
      else this.#wrote();
    });
  }

  #wrote(): void {
    this.#writing = false;
    this.#underWay.clear();
    this.#tellSent();
    const onProgress = this.#onProgress;
    this.#onProgress = null;
    onProgress?.();
    if (!this.#writing) this.#write();
  }

  /** Stops sending and drops the queue. */
  #fail(error: Error): void {
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#underWay.clear();
    this.#tellSent();
    this.#onFailure(error);
  }

  #isUnsent(operation: number): boolean {
    return this.#underWay.has(operation) || this.#queue.some((message) => carriesContent(message, operation));
  }

  #tellSent(): void {
    const awaited = this.#awaited;
    this.#awaited = [];
    for (const { operation, done } of awaited) this.onceSent(operation, done);
  }

  /** Collects frames for one write. Combines small ones. */
  #takeBatch(): Uint8Array[] {
    const parts: Uint8Array[] = [];
    let bytes = 0;
    while (bytes < BATCH_BYTES) {
      const message = this.#queue.shift();
      if (message === undefined) break;
      if (this.#isEarly(message)) {
        this.#queue.push(message);
        continue;
      }
      const frame = nextFrame(message);
      parts.push(...frame.parts);
      this.#underWay.add(message.operation);
      bytes += frame.bytes;
      this.#queuedBytes -= frame.bytes - frame.overhead;
      if (message.sent < message.content.length) this.#queue.push(message);
    }
    return bytes <= BATCH_BYTES && parts.length > 1 ? [Buffer.concat(parts, bytes)] : parts;
  }

  /** Sends the rest of a long request before its abort, because the helper must know the operation. */
  #isEarly({ kind, operation }: OutgoingMessage): boolean {
    return (
      kind === MessageKind.abort &&
      this.#queue.some((other) => other.sent > 0 && carriesContent(other, operation))
    );
  }
}

/** Returns a buffer of `length` bytes for the content of a message. Throws when the message is not expected. */
type AllocateContent = (kind: MessageKind, operation: number, length: number) => Buffer;

/** Decodes messages from chunks of any size. Copies each byte of content once, into its final buffer. */
export class FrameReader {
  readonly #allocate: AllocateContent;
  readonly #onMessage: (message: Message) => void;
  /** Incomplete messages, by operation. At most one for each operation that {@link AllocateContent} accepts. */
  readonly #incomplete = new Map<number, IncomingMessage>();
  readonly #prefix = Buffer.alloc(FRAME_PREFIX_BYTES + MESSAGE_PREFIX_BYTES + MESSAGE_HEAD_BYTES);
  /** How many bytes of the prefix are read, and how many are needed. */
  #filled = 0;
  #needed = FRAME_PREFIX_BYTES;
  /** The message whose content comes next, and how many bytes of it are in this frame. */
  #current: IncomingMessage | null = null;
  #contentLeft = 0;

  constructor(allocate: AllocateContent, onMessage: (message: Message) => void) {
    this.#allocate = allocate;
    this.#onMessage = onMessage;
  }

  /** The buffer may be reused afterwards. Throws FrameError for invalid input; nothing can be read after that. */
  push(bytes: Buffer): void {
    let start = 0;
    while (start < bytes.length) {
      start += this.#current === null ? this.#readPrefix(bytes, start) : this.#readContent(bytes, start);
    }
  }

  #readPrefix(bytes: Buffer, start: number): number {
    const count = Math.min(this.#needed - this.#filled, bytes.length - start);
    bytes.copy(this.#prefix, this.#filled, start, start + count);
    this.#filled += count;
    if (this.#filled === this.#needed) this.#prefixComplete();
    return count;
  }

  #prefixComplete(): void {
    const length = this.#prefix.readUInt32LE(0) - (FRAME_PREFIX_BYTES - 4);
    const kind = this.#prefix.readUInt8(4);
    const operation = this.#prefix.readUInt32LE(5);
    if (kind === CONTINUATION) {
      const message = this.#incomplete.get(operation);
      if (message === undefined) throw new FrameError('a frame continues nothing');
      this.#beginContent(message, length);
      return;
    }
    if (!isMessageKind(kind)) throw new FrameError(`there are no frames of kind ${kind}`);
    if (this.#filled === FRAME_PREFIX_BYTES) {
      if (length < MESSAGE_PREFIX_BYTES) throw new FrameError('a frame is too short');
      this.#needed += MESSAGE_PREFIX_BYTES;
      return;
    }
    const headLength = this.#prefix.readUInt32LE(FRAME_PREFIX_BYTES);
    if (headLength > MESSAGE_HEAD_BYTES) throw new FrameError('the head of a message is too long');
    const headEnd = FRAME_PREFIX_BYTES + MESSAGE_PREFIX_BYTES + headLength;
    if (this.#filled < headEnd) {
      this.#needed = headEnd;
      return;
    }
    const contentLength = this.#prefix.readUInt32LE(FRAME_PREFIX_BYTES + 4);
    const head = parseHead(this.#prefix.subarray(headEnd - headLength, headEnd));
    if (this.#incomplete.has(operation)) throw new FrameError('a message interrupts another');
    const content = contentLength === 0 ? NOTHING : this.#allocate(kind, operation, contentLength);
    this.#beginContent(
      { kind, operation, head, content, filled: 0 },
      length - MESSAGE_PREFIX_BYTES - headLength,
    );
  }

  #beginContent(message: IncomingMessage, length: number): void {
    this.#filled = 0;
    this.#needed = FRAME_PREFIX_BYTES;
    if (length < 0 || length > Math.min(message.content.length - message.filled, FRAME_CONTENT_BYTES)) {
      throw new FrameError('the content of a frame has the wrong length');
    }
    this.#current = message;
    this.#contentLeft = length;
    if (length === 0) this.#frameComplete(message);
  }

  #readContent(bytes: Buffer, start: number): number {
    const message = this.#current!;
    const count = Math.min(this.#contentLeft, bytes.length - start);
    bytes.copy(message.content, message.filled, start, start + count);
    message.filled += count;
    this.#contentLeft -= count;
    if (this.#contentLeft === 0) this.#frameComplete(message);
    return count;
  }

  #frameComplete(message: IncomingMessage): void {
    this.#current = null;
    if (message.filled < message.content.length) {
      this.#incomplete.set(message.operation, message);
      return;
    }
    this.#incomplete.delete(message.operation);
    this.#onMessage(message);
  }
}

interface OutgoingMessage {
  readonly kind: MessageKind;
  readonly operation: number;
  readonly head: Buffer;
  readonly content: Uint8Array;
  sent: number;
}

interface IncomingMessage extends Message {
  filled: number;
}

const NOTHING = Buffer.alloc(0);
const CONTINUATION = 6;
const FRAME_PREFIX_BYTES = 9;
const MESSAGE_PREFIX_BYTES = 8;
const MESSAGE_KINDS: ReadonlySet<number> = new Set(Object.values(MessageKind));

function carriesContent({ kind, operation }: OutgoingMessage, wanted: number): boolean {
  return operation === wanted && (kind === MessageKind.request || kind === MessageKind.answer);
}

/** The next frame of a message. `overhead` counts its bytes besides head and content. */
function nextFrame(message: OutgoingMessage): { parts: Uint8Array[]; bytes: number; overhead: number } {
  const isFirst = message.sent === 0;
  const content = message.content.subarray(message.sent, message.sent + FRAME_CONTENT_BYTES);
  message.sent += content.length;
  const overhead = isFirst ? FRAME_PREFIX_BYTES + MESSAGE_PREFIX_BYTES : FRAME_PREFIX_BYTES;
  const headLength = isFirst ? message.head.length : 0;
  const prefix = Buffer.allocUnsafe(overhead + headLength);
  const bytes = prefix.length + content.length;
  prefix.writeUInt32LE(bytes - 4, 0);
  prefix.writeUInt8(isFirst ? message.kind : CONTINUATION, 4);
  prefix.writeUInt32LE(message.operation, 5);
  if (isFirst) {
    prefix.writeUInt32LE(headLength, FRAME_PREFIX_BYTES);
    prefix.writeUInt32LE(message.content.length, FRAME_PREFIX_BYTES + 4);
    message.head.copy(prefix, overhead);
  }
  return { parts: content.length === 0 ? [prefix] : [prefix, content], bytes, overhead };
}

function isMessageKind(kind: number): kind is MessageKind {
  return MESSAGE_KINDS.has(kind);
}

function parseHead(text: Buffer): unknown {
  try {
    return JSON.parse(text.toString());
  } catch {
    throw new FrameError('the head of a message is no JSON');
  }
}
