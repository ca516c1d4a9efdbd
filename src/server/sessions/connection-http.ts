import { NetworkError } from '../../network/errors.ts';
import type { HttpClient, HttpResponse } from '../../network/http/http-client.ts';
import type { HttpRequest } from '../../network/http/request.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import type { NotificationParamsOf } from '../../protocol/registry.ts';
import { base64Length, writeBase64 } from '../../rpc/base64.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { HTTP_REQUESTS_PER_CONNECTION, MAX_BODY_DELTA_BYTES } from '../limits.ts';
import { hostPolicyOf } from './http-hosts.ts';

type BodyDelta = NotificationParamsOf<'http/request/bodyDelta'>;

/** Where streamed bodies go. */
interface BodyPeer {
  readonly saturated: boolean;
  sendBulk(message: Uint8Array): void;
}

export interface ConnectionHttpOptions {
  /** Made for the first request. */
  client(): Promise<HttpClient>;
  /** Bytes of bodies that are held for answers at once. */
  readonly maxBodyBytes: number;
}

/** A body that was read to its end. `release` gives its bytes back to the budget. */
export interface WholeAnswer extends Pick<HttpResponse, 'status' | 'fields'> {
  readonly body: Buffer;
  release(): void;
}

/** An answer whose body is sent once `start` was called. */
export interface StreamedAnswer extends Pick<HttpResponse, 'status' | 'fields'> {
  start(): void;
}

interface ActiveRequest {
  readonly requestId: string;
  readonly ending: AbortController;
  /** Bytes that may still be sent before the client has to report; null is no such limit. */
  window: number | null;
  /** Goes on with a body that waits for room. */
  wake: () => void;
}

/**
 * The requests to web servers of one connection. A client that does not read stops the bodies at their source: streamed ones when
 * bulk data waits, others when answers do.
 */
export class ConnectionHttp {
  readonly #peer: BodyPeer;
  readonly #options: ConnectionHttpOptions;
  readonly #active = new Set<ActiveRequest>();
  readonly #streams = new Map<string, ActiveRequest>();
  #client: Promise<HttpClient> | null = null;
  #bodyBytes = 0;
  #held = false;
  #clientIsSilent = false;
  #piecesSent = 0;
  #idleWaiters: (() => void)[] = [];
  #disposed = false;

  constructor(peer: BodyPeer, options: ConnectionHttpOptions) {
    this.#peer = peer;
    this.#options = options;
  }

  /** Sends a request and reads the whole answer. Rejects with NetworkError. */
  async fetch(requestId: string, request: HttpRequest): Promise<WholeAnswer> {
    const active = this.#enter(requestId, null);
    try {
      const { status, fields, body } = await this.#send(request, active);
      return { status, fields, ...(await this.#whole(body, active)) };
    } finally {
      this.#leave(active);
    }
  }

  /** Sends a request and returns the head of the answer. The id is taken until the body has been sent. Rejects with NetworkError. */
  async stream(requestId: string, request: HttpRequest, windowBytes: number | null): Promise<StreamedAnswer> {
    if (this.#streams.has(requestId)) {
      throw new NetworkError(
        'invalid',
        `http/request streamResponse requestId \`${requestId}\` is already active`,
      );
    }
    const active = this.#enter(requestId, windowBytes);
    this.#streams.set(requestId, active);
    try {
      const answer = await this.#send(request, active);
      const { status, fields } = answer;
      return { status, fields, start: () => void this.#pump(answer, active) };
    } catch (error) {
      this.#leave(active);
      throw error;
    }
  }

  /** Ends the requests with this id; whether there were any. */
  cancel(requestId: string): boolean {
    const requests = [...this.#active].filter((active) => active.requestId === requestId);
    for (const { ending } of requests) {
      ending.abort(new Error('the request was cancelled'));
    }
    return requests.length > 0;
  }

  /** The client has used so many bytes of a streamed body. */
  consumed(requestId: string, bytes: number): void {
    const active = this.#streams.get(requestId);
    if (active === undefined || active.window === null) return;
    active.window += bytes;
    active.wake();
  }

  /** Tells whether the client keeps up with bulk data. */
  setPaused(paused: boolean): void {
    if (!paused) this.#wakeAll();
  }

  /** While the client leaves answers unread, no body is gathered for a further one. */
  setHeld(held: boolean): void {
    this.#held = held;
    if (!held) this.#wakeAll();
  }

  /**
   * The client says nothing more: resolves when every request has ended and its body is sent. A body whose window is used up is
   * cut off, because nobody opens that any more.
   */
  async finish(): Promise<void> {
    this.#clientIsSilent = true;
    for (const active of this.#active) this.#endIfStuck(active);
    if (this.#active.size > 0) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  /** Pieces of bodies that were sent: who sees it grow knows that they come. */
  get piecesSent(): number {
    return this.#piecesSent;
  }

  /** Ends every request that is under way. */
  giveUp(): void {
    for (const { ending } of this.#active) ending.abort(connectionEnded());
  }

  /** Ends everything, the connections to web servers included. */
  dispose(): void {
    this.#disposed = true;
    this.giveUp();
    this.#client?.then(
      (client) => client.close(),
      () => {},
    );
  }

  #enter(requestId: string, window: number | null): ActiveRequest {
    if (this.#active.size >= HTTP_REQUESTS_PER_CONNECTION) {
      throw new NetworkError(
        'limit',
        `${HTTP_REQUESTS_PER_CONNECTION} http requests are under way on this connection, the maximum`,
      );
    }
    const active = { requestId, window, ending: new AbortController(), wake: () => {} };
    active.ending.signal.addEventListener('abort', () => active.wake());
    this.#active.add(active);
    return active;
  }

  #leave(active: ActiveRequest): void {
    this.#active.delete(active);
    if (this.#streams.get(active.requestId) === active) this.#streams.delete(active.requestId);
    if (this.#active.size === 0) for (const idle of this.#idleWaiters.splice(0)) idle();
  }

  async #send(request: HttpRequest, { ending }: ActiveRequest): Promise<HttpResponse> {
    this.#client ??= this.#options.client();
    const client = await this.#client;
    if (this.#disposed) throw new NetworkError('failed', 'http/request failed: the connection has ended');
    return client.send(request, ending.signal);
  }

  async #whole(
    pieces: AsyncIterable<Buffer>,
    active: ActiveRequest,
  ): Promise<Pick<WholeAnswer, 'body' | 'release'>> {
    const gathered: Buffer[] = [];
    let size = 0;
    const release = () => {
      this.#bodyBytes -= size;
      size = 0;
    };
    try {
      for await (const piece of pieces) {
        size += piece.length;
        this.#bodyBytes += piece.length;
        if (this.#bodyBytes > this.#options.maxBodyBytes) throw this.#tooLarge();
        gathered.push(piece);
        await this.#room(active, () => !this.#held);
      }
      return { body: Buffer.concat(gathered, size), release };
    } catch (error) {
      release();
      if (!(error instanceof NetworkError) || error.kind !== 'failed') throw error;
      throw new NetworkError('failed', `failed to read http/request response body: ${error.message}`);
    }
  }

  #tooLarge(): NetworkError {
    return new NetworkError(
      'limit',
      `http/request holds ${this.#options.maxBodyBytes} bytes of bodies for this connection, the configured maximum (maxHttpBodyBytes); streamResponse has no such limit`,
    );
  }

  async #pump({ body }: HttpResponse, active: ActiveRequest): Promise<void> {
    const { requestId } = active;
    let seq = 1;
    let error: string | null = null;
    try {
      for await (const piece of body) {
        for (let from = 0; from < piece.length; from += MAX_BODY_DELTA_BYTES) {
          const part = piece.subarray(from, from + MAX_BODY_DELTA_BYTES);
          this.#peer.sendBulk(bodyDelta(requestId, seq++, part));
          this.#piecesSent++;
        }
        if (active.window !== null) active.window -= piece.length;
        this.#endIfStuck(active);
        await this.#room(active, () => !this.#peer.saturated && (active.window ?? 1) > 0);
      }
    } catch (failure) {
      error = (failure as Error).message;
    }
    this.#leave(active);
    if (this.#disposed) return;
    const end: BodyDelta = { requestId, seq, deltaBase64: '', done: true, error };
    this.#peer.sendBulk(Buffer.from(encodeNotification('http/request/bodyDelta', end)));
  }

  #endIfStuck({ window, ending }: ActiveRequest): void {
    if (!this.#clientIsSilent || window === null || window > 0) return;
    ending.abort(new Error('the window is used up, and the client has ended its side of the connection'));
  }

  /** Waits until there is room, or the request is ended: then the next piece tells. */
  async #room(active: ActiveRequest, isThere: () => boolean): Promise<void> {
    while (!isThere() && !active.ending.signal.aborted) {
      await new Promise<void>((resolve) => {
        active.wake = resolve;
      });
    }
  }

  #wakeAll(): void {
    for (const active of this.#active) active.wake();
  }
}

/** The client for one connection, as the configuration wants it. */
export async function openHttpClient(config: ExecServerConfig): Promise<HttpClient> {
  const [{ HttpClient }, policy] = await Promise.all([
    import('../../network/http/http-client.ts'),
    hostPolicyOf(config),
  ]);
  return new HttpClient({ env: process.env, policy });
}

function connectionEnded(): Error {
  return new Error('the connection has ended');
}

const AFTER_DELTA = Buffer.from('","done":false,"error":null}}');

/** A notification with a piece of a body, written straight into one buffer. */
function bodyDelta(requestId: string, seq: number, piece: Buffer): Buffer {
  const params = `{"requestId":${JSON.stringify(requestId)},"seq":${seq},"deltaBase64":"`;
  const head = Buffer.from(`{"method":"http/request/bodyDelta","params":${params}`);
  const frame = Buffer.allocUnsafe(head.length + base64Length(piece.length) + AFTER_DELTA.length);
  head.copy(frame);
  writeBase64(frame, head.length, piece, AFTER_DELTA);
  return frame;
}
