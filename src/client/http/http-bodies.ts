import { base64ByteLength, decodeBase64 } from '../../base/base64.ts';
import { ClientError } from '../errors.ts';
import { BODY_QUEUE_MAX_CHUNKS, BODY_QUEUES_MAX_BYTES, MAX_BODY_DELTA_BYTES } from '../limits.ts';

/** A chunk of a streamed body, or its end. */
interface BodyDelta {
  readonly requestId: string;
  readonly seq: number;
  readonly bytes: Uint8Array;
  readonly done: boolean;
  readonly error: string | null;
}

/**
 * The streamed bodies of one client. A body is registered from before its request is sent until its end has
 * arrived.
 */
export class HttpBodies {
  readonly #bodies = new Map<string, HttpBody>();
  /** Bytes that wait for readers. */
  #waitingBytes = 0;
  #nextId = 1;

  /** Returns an id that no other request of the client has. */
  newId(): string {
    return `http-${this.#nextId++}`;
  }

  open(requestId: string): HttpBody {
    const body = new HttpBody(
      (bytes) => {
        this.#waitingBytes += bytes;
        return this.#waitingBytes <= BODY_QUEUES_MAX_BYTES;
      },
      () => this.#bodies.delete(requestId),
    );
    this.#bodies.set(requestId, body);
    return body;
  }

  /** Passes a chunk to its body. Also returns `routed` for an unknown body: its reader has left. */
  receive(params: unknown): 'routed' | 'unreadable' {
    const delta = readDelta(params);
    if (delta === null) return 'unreadable';
    this.#bodies.get(delta.requestId)?.receive(delta);
    return 'routed';
  }

  failAll(error: ClientError): void {
    for (const body of [...this.#bodies.values()]) body.fail(error, { over: true });
  }
}

/** The received part of one body that waits for its reader. */
export class HttpBody {
  /** Counts bytes that start to wait, or stop when negative. Returns false when too many bytes wait. */
  readonly #count: (bytes: number) => boolean;
  readonly #ended: () => void;
  #chunks: Uint8Array[] = [];
  #lastSeq = 0;
  #done = false;
  #over = false;
  #failure: ClientError | null = null;
  #wake: () => void = () => {};

  constructor(count: (bytes: number) => boolean, ended: () => void) {
    this.#count = count;
    this.#ended = ended;
  }

  /** Whether the server sends no more of this body. */
  get over(): boolean {
    return this.#over;
  }

  receive({ seq, bytes, done, error }: BodyDelta): void {
    if (this.#done) return;
    if (seq !== this.#lastSeq + 1) {
      this.fail(
        new ClientError('protocol', `a chunk of a streamed body is missing: ${seq} follows ${this.#lastSeq}`),
      );
      return;
    }
    this.#lastSeq = seq;
    this.#over ||= done;
    if (bytes.length > 0) this.#push(bytes);
    if (error !== null) this.fail(new ClientError('server', `the body was cut short: ${error}`));
    else if (done) this.#end();
    this.#wake();
  }

  /**
   * Ends the body with an error, which the reader gets after the waiting chunks. `over` means that the server sends
   * no more.
   */
  fail(error: ClientError, { over = false } = {}): void {
    this.#over ||= over;
    if (this.#done) return;
    this.#failure = error;
    this.#end();
  }

  /** Drops the waiting chunks and ends the iteration, with the error if there is one. */
  drop(error: ClientError | null = null): void {
    for (const chunk of this.#chunks) this.#count(-chunk.length);
    this.#chunks = [];
    this.#failure = error;
    this.#end();
  }

  /** Returns the next chunk, or null at the end. Rejects when the body failed. */
  async next(): Promise<Uint8Array | null> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) {
        this.#count(-chunk.length);
        return chunk;
      }
      if (this.#failure !== null) throw this.#failure;
      if (this.#done) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #push(bytes: Uint8Array): void {
    this.#chunks.push(bytes);
    if (this.#chunks.length > BODY_QUEUE_MAX_CHUNKS) this.#chunks = [concat(this.#chunks)];
    if (this.#count(bytes.length)) return;
    this.fail(
      new ClientError(
        'overloaded',
        `more than ${BODY_QUEUES_MAX_BYTES} bytes of streamed bodies wait for their readers`,
        {
          hint: 'read the bodies faster, or stream fewer at a time',
        },
      ),
    );
  }

  #end(): void {
    if (!this.#done) {
      this.#done = true;
      this.#ended();
    }
    this.#wake();
  }
}

function concat(chunks: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  for (const chunk of chunks) {
    whole.set(chunk, end);
    end += chunk.length;
  }
  return whole;
}

function readDelta(params: unknown): BodyDelta | null {
  if (typeof params !== 'object' || params === null) return null;
  const { requestId, seq, deltaBase64, done, error } = params as Record<string, unknown>;
  if (typeof requestId !== 'string' || !Number.isSafeInteger(seq) || typeof deltaBase64 !== 'string')
    return null;
  if (base64ByteLength(deltaBase64) > MAX_BODY_DELTA_BYTES) return null;
  const bytes = decodeBase64(deltaBase64);
  if (bytes === null) return null;
  const text = typeof error === 'string' ? error : null;
  return { requestId, seq: seq as number, bytes, done: done === true, error: text };
}
