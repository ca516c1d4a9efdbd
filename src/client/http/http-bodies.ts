import { Activity } from '../connection/activity.ts';
import { receivedBytes } from '../connection/bytes.ts';
import { ChunkQueue } from '../connection/chunk-queue.ts';
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
  readonly #activity: Activity;
  readonly #bodies = new Map<string, HttpBody>();
  /** Bytes that wait for readers. */
  #waitingBytes = 0;
  #nextId = 1;

  /** An open body counts as activity. */
  constructor(activity = new Activity()) {
    this.#activity = activity;
  }

  /** Returns an id that no other request of the client has. */
  newId(): string {
    return `http-${this.#nextId++}`;
  }

  open(requestId: string): HttpBody {
    const end = this.#activity.begin();
    const body = new HttpBody(
      (bytes) => {
        this.#waitingBytes += bytes;
        return this.#waitingBytes <= BODY_QUEUES_MAX_BYTES;
      },
      () => {
        this.#bodies.delete(requestId);
        end();
      },
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
  readonly #queue: ChunkQueue;
  readonly #ended: () => void;
  #lastSeq = 0;
  #over = false;

  /** `count` counts bytes that start to wait, or stop when negative. It returns false when too many bytes wait. */
  constructor(count: (bytes: number) => boolean, ended: () => void) {
    this.#queue = new ChunkQueue(BODY_QUEUE_MAX_CHUNKS, count);
    this.#ended = ended;
  }

  /** Whether the server sends no more of this body. */
  get over(): boolean {
    return this.#over;
  }

  receive({ seq, bytes, done, error }: BodyDelta): void {
    if (this.#queue.done) return;
    if (seq !== this.#lastSeq + 1) {
      this.fail(
        new ClientError('protocol', `a chunk of a streamed body is missing: ${seq} follows ${this.#lastSeq}`),
      );
      return;
    }
    this.#lastSeq = seq;
    this.#over ||= done;
    if (bytes.length > 0 && !this.#queue.push(bytes)) this.fail(tooManyBytes());
    if (error !== null) this.fail(new ClientError('server', `the body was cut short: ${error}`));
    else if (done) this.#end(null);
  }

  /**
   * Ends the body with an error, which the reader gets after the waiting chunks. `over` means that the server sends
   * no more.
   */
  fail(error: ClientError, { over = false } = {}): void {
    this.#over ||= over;
    this.#end(error);
  }

  /** Drops the waiting chunks and ends the iteration, with the error if there is one. */
  drop(error: ClientError | null = null): void {
    const wasDone = this.#queue.done;
    this.#queue.drop(error);
    if (!wasDone) this.#ended();
  }

  /** Returns the next chunk, or null at the end. Rejects when the body failed. */
  next(): Promise<Uint8Array | null> {
    return this.#queue.next();
  }

  #end(error: ClientError | null): void {
    if (this.#queue.done) return;
    this.#queue.end(error);
    this.#ended();
  }
}

function tooManyBytes(): ClientError {
  return new ClientError(
    'overloaded',
    `more than ${BODY_QUEUES_MAX_BYTES} bytes of streamed bodies wait for their readers`,
    { hint: 'read the bodies faster, or stream fewer at a time' },
  );
}

function readDelta(params: unknown): BodyDelta | null {
  if (typeof params !== 'object' || params === null) return null;
  const { requestId, seq, deltaBase64, done, error } = params as Record<string, unknown>;
  if (typeof requestId !== 'string' || !Number.isSafeInteger(seq)) return null;
  const bytes = receivedBytes(deltaBase64, MAX_BODY_DELTA_BYTES);
  if (bytes === null) return null;
  const text = typeof error === 'string' ? error : null;
  return { requestId, seq: seq as number, bytes, done: done === true, error: text };
}
