import type { Readable, Writable } from 'node:stream';
import { FileError } from '../../../files/errors.ts';
import { FAILURE_TEXT_LENGTH, REQUEST_CONTENT_BYTES, UNSENT_ANSWER_BYTES } from '../limits.ts';
import {
  type ByteSink,
  FrameError,
  FrameReader,
  FrameWriter,
  type Message,
  MessageKind,
} from '../wire/frames.ts';
import type { FailureHead, HelperTask, OperationHead, ServedFiles } from '../wire/operations.ts';
import { OpenFileTable } from './open-file-table.ts';
import { type OperationContext, type OperationResult, PieceBuffers, perform } from './operations.ts';

/** Opens the request stream and passes its bytes on. The buffer is reused after each call. */
type OpenInput = (onBytes: (bytes: Buffer) => void) => Readable;

/**
 * Serves files over a pair of pipes. Requests run concurrently and are answered as they finish. Resolves when the input has ended and all
 * files are closed. Discards unfinished replacements of files.
 */
export async function serveFileSystem(
  prepare: (task: HelperTask) => Promise<ServedFiles>,
  openInput: OpenInput,
  output: Writable,
): Promise<void> {
  const server = new FileServer(prepare, openInput, output);
  await server.inputClosed;
  await server.close();
  output.end();
}

class FileServer {
  readonly inputClosed: Promise<void>;
  readonly #prepare: (task: HelperTask) => Promise<ServedFiles>;
  readonly #input: Readable;
  readonly #writer: FrameWriter;
  readonly #openFiles = new OpenFileTable();
  readonly #pieces = new PieceBuffers();
  /** The running operations. An abort can arrive together with its request, before the operation has begun. */
  readonly #running = new Map<number, Running>();
  #served: Promise<ServedFiles> | null = null;

  constructor(prepare: (task: HelperTask) => Promise<ServedFiles>, openInput: OpenInput, output: Writable) {
    this.#prepare = prepare;
    // Each write reports its own failure. Without a reader there is nothing left to do.
    output.on('error', () => {});
    const sink: ByteSink = {
      write: (bytes, done) => void output.write(bytes, (error) => done(error ?? null)),
    };
    this.#writer = new FrameWriter(sink, () => this.#input.destroy());
    const reader = new FrameReader(requestBuffer, (message) => this.#receive(message));
    this.#input = openInput((bytes) => this.#read(reader, bytes));
    this.#input.on('error', () => {});
    this.inputClosed = new Promise((resolve) => this.#input.once('close', resolve));
  }

  /** Aborts running operations and discards open files. */
  async close(): Promise<void> {
    for (const running of this.#running.values()) running.abort();
    await this.#openFiles.discardAll();
  }

  /** Stops reading after an invalid message. */
  #read(reader: FrameReader, bytes: Buffer): void {
    if (this.#input.destroyed) return;
    try {
      reader.push(bytes);
    } catch (error) {
      this.#input.destroy(error as Error);
    }
  }

  #receive(message: Message): void {
    if (message.kind === MessageKind.abort) this.#running.get(message.operation)?.abort();
    else if (message.kind === MessageKind.request) void this.#answer(message);
    else throw new FrameError('a server answers nothing');
  }

  async #answer({ operation, head, content }: Message): Promise<void> {
    const running = new Running();
    this.#running.set(operation, running);
    try {
      const result = await this.#perform({ operation, running }, head as OperationHead, content);
      this.#writer.send(MessageKind.answer, operation, result.head ?? null, result.content);
      if (result.sent !== undefined) this.#writer.onceSent(operation, result.sent);
    } catch (error) {
      this.#writer.send(MessageKind.failure, operation, failureHead(error));
    } finally {
      this.#running.delete(operation);
    }
    this.#applyBackPressure();
  }

  async #perform(
    { operation, running }: { readonly operation: number; readonly running: Running },
    head: OperationHead,
    content: Buffer,
  ): Promise<OperationResult> {
    if (head[0] === 'prepare') {
      this.#served = this.#prepare(JSON.parse(content.toString()) as HelperTask);
      await this.#served;
      return {};
    }
    if (this.#served === null) throw new FileError('failed', 'the fs sandbox helper is not prepared');
    const context: OperationContext = {
      served: await this.#served,
      openFiles: this.#openFiles,
      pieces: this.#pieces,
      content,
      signal: () => running.signal(),
      onWait: () => this.#writer.send(MessageKind.waiting, operation, null),
    };
    return await perform(context, head);
  }

  /** Pauses the input while too many answer bytes are unsent. */
  #applyBackPressure(): void {
    if (this.#writer.queuedBytes <= UNSENT_ANSWER_BYTES || this.#input.isPaused()) return;
    this.#input.pause();
    const goOn = () => {
      if (this.#writer.queuedBytes <= UNSENT_ANSWER_BYTES) this.#input.resume();
      else this.#writer.onceProgressed(goOn);
    };
    this.#writer.onceProgressed(goOn);
  }
}

/** A running operation. Creates its AbortSignal on first use, because most operations need none. */
class Running {
  #controller: AbortController | null = null;
  #aborted = false;

  signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#aborted) this.#controller.abort();
    return this.#controller.signal;
  }

  abort(): void {
    this.#aborted = true;
    this.#controller?.abort();
  }
}

function requestBuffer(kind: MessageKind, _operation: number, length: number): Buffer {
  if (kind !== MessageKind.request || length > REQUEST_CONTENT_BYTES) {
    throw new FrameError('unexpected content');
  }
  return Buffer.allocUnsafeSlow(length);
}

/** Truncates messages that quote very long values. */
function failureHead(error: unknown): FailureHead {
  const message = (error instanceof Error ? error.message : String(error)).slice(0, FAILURE_TEXT_LENGTH);
  const { kind, errno } = error instanceof FileError ? error : { kind: 'failed' as const, errno: null };
  return { kind, message, errno };
}
