import { Semaphore } from '../../../base/semaphore.ts';
import { Errno, FileError, systemError } from '../../../files/errors.ts';
import {
  ANSWER_CONTENT_BYTES,
  CONCURRENT_CONTENT_BYTES,
  MAX_QUEUED_OPERATIONS,
  MAX_WAITING_WRITES,
  OPERATION_CONCURRENCY,
} from '../limits.ts';
import { type ByteSink, FrameError, FrameReader, FrameWriter, type Message, MessageKind } from './frames.ts';
import type { FailureHead, OperationHead } from './operations.ts';

/** The parts of a request besides its head. */
export interface RequestOptions {
  readonly content?: Uint8Array;
  /** The buffer for the content of the answer. Without it a new buffer is allocated. */
  readonly into?: Buffer;
  /** The maximum length of the content without `into`. Defaults to ANSWER_CONTENT_BYTES. */
  readonly expected?: number;
  /** Tells the helper to cancel the operation. The request still waits for the answer. */
  readonly signal?: AbortSignal;
  /** Called when the operation waits for another process, such as the reader of a FIFO. */
  onWait?(): void;
}

export interface Answer {
  readonly head: unknown;
  readonly content: Buffer;
}

/**
 * The server's end of the pipes to a helper. Sends requests concurrently and matches the answers, which arrive in any order. When the helper
 * exits or sends an invalid message, all pending and later requests fail.
 */
export class HelperChannel {
  readonly #writer: FrameWriter;
  readonly #reader: FrameReader;
  readonly #slots = new Semaphore(OPERATION_CONCURRENCY, {
    maxBytes: CONCURRENT_CONTENT_BYTES,
    maxWaiting: MAX_QUEUED_OPERATIONS,
    tooManyWaiting: tooManyOperations,
  });
  readonly #pending = new Map<number, Pending>();
  readonly #onBroken: () => void;
  /** Called for every request, so that the reader of answers polls without delay. */
  readonly #onRequest: () => void;
  #last = 0;
  #waitingWrites = 0;
  #failure: FileError | null = null;

  /** `onBroken` is called when the helper accepts no requests or sends an invalid message. It must kill the helper and call {@link fail}. */
  constructor(sink: ByteSink, onRequest: () => void, onBroken: () => void) {
    this.#onRequest = onRequest;
    this.#onBroken = onBroken;
    this.#writer = new FrameWriter(sink, onBroken);
    this.#reader = new FrameReader(
      (kind, operation, length) => this.#allocate(kind, operation, length),
      (message) => this.#receive(message),
    );
  }

  /** The error of all further requests. Null while the channel works. */
  get failure(): FileError | null {
    return this.#failure;
  }

  async request(head: OperationHead, options: RequestOptions = {}): Promise<Answer> {
    const { content, into, expected, signal } = options;
    const bytes = (content?.length ?? 0) + (into?.length ?? expected ?? 0);
    await this.#slots.acquire(signal, bytes);
    if (this.#failure !== null) throw this.#failure;
    const operation = this.#nextOperation();
    return await new Promise((resolve, reject) => {
      const abort = () => this.#writer.send(MessageKind.abort, operation, null);
      const pending = { resolve, reject, bytes, options, waits: false, forget: () => {} };
      if (signal !== undefined) {
        signal.addEventListener('abort', abort, { once: true });
        pending.forget = () => signal.removeEventListener('abort', abort);
      }
      this.#pending.set(operation, pending);
      this.#onRequest();
      this.#send(operation, head, content);
      if (signal?.aborted) abort();
    });
  }

  /** Processes output of the helper. The buffer may be reused afterwards. */
  receive(bytes: Buffer): void {
    if (this.#failure !== null) return;
    try {
      this.#reader.push(bytes);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.fail(
        new FileError('failed', `fs sandbox helper failed: it sent an invalid message (${error.message})`),
      );
      this.#onBroken();
    }
  }

  /** Fails all pending requests with `error`. */
  fail(error: FileError): void {
    if (this.#failure !== null) return;
    this.#failure = error;
    this.#slots.close(error);
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject, forget } of pending) {
      forget();
      reject(error);
    }
  }

  /** A head that is too long contains a path that no system accepts. That fails only this operation. */
  #send(operation: number, head: OperationHead, content?: Uint8Array): void {
    try {
      this.#writer.send(MessageKind.request, operation, head, content);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#settle(operation)?.reject(systemError(Errno.ENAMETOOLONG));
    }
  }

  #allocate(kind: MessageKind, operation: number, length: number): Buffer {
    const pending = this.#pending.get(operation);
    if (pending === undefined || kind !== MessageKind.answer) throw new FrameError('unexpected content');
    const { into, expected = ANSWER_CONTENT_BYTES } = pending.options;
    if (length > (into?.length ?? expected)) throw new FrameError('an answer is too long');
    return into?.subarray(0, length) ?? Buffer.allocUnsafeSlow(length);
  }

  #receive({ kind, operation, head, content }: Message): void {
    if (kind === MessageKind.waiting) this.#noteWait(operation);
    else if (kind === MessageKind.answer) this.#answered(operation, { head, content });
    else if (kind === MessageKind.failure) this.#settled(operation).reject(failureOf(head));
    else throw new FrameError('a request from a helper');
  }

  /** Waits until the request is sent completely, because the caller may reuse its buffer after the answer. */
  #answered(operation: number, answer: Answer): void {
    const pending = this.#settled(operation);
    this.#writer.onceSent(operation, () => pending.resolve(answer));
  }

  /** Frees the slot of an operation that waits for another process. The number of such operations is limited. */
  #noteWait(operation: number): void {
    const pending = this.#pending.get(operation);
    if (pending === undefined || pending.waits) throw new FrameError('an unexpected waiting message');
    pending.waits = true;
    this.#slots.release(pending.bytes);
    if (++this.#waitingWrites > MAX_WAITING_WRITES) {
      this.#writer.send(MessageKind.abort, operation, null);
      return;
    }
    pending.options.onWait?.();
  }

  #settled(operation: number): Pending {
    const pending = this.#settle(operation);
    if (pending === null) throw new FrameError('an answer without a request');
    return pending;
  }

  #settle(operation: number): Pending | null {
    const pending = this.#pending.get(operation);
    if (pending === undefined) return null;
    this.#pending.delete(operation);
    pending.forget();
    if (pending.waits) this.#waitingWrites--;
    else this.#slots.release(pending.bytes);
    return pending;
  }

  #nextOperation(): number {
    do this.#last = (this.#last + 1) % OPERATION_NUMBERS;
    while (this.#pending.has(this.#last));
    return this.#last;
  }
}

interface Pending {
  readonly bytes: number;
  readonly options: RequestOptions;
  waits: boolean;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
  forget(): void;
}

const OPERATION_NUMBERS = 2 ** 32;

function tooManyOperations(): FileError {
  return new FileError(
    'failed',
    `more than ${MAX_QUEUED_OPERATIONS} file operations wait for the fs sandbox helper; send fewer at a time`,
  );
}

function failureOf(head: unknown): FileError {
  const { kind, message, errno } = head as FailureHead;
  return new FileError(kind, message, errno);
}
