import { setImmediate as nextTurn } from 'node:timers/promises';
import { StartError } from '../../listener/start-error.ts';
import { NetworkError } from '../../network/errors.ts';
import type { HostPolicy } from '../../network/http/host-policy.ts';
import type { HttpClient, HttpResponse } from '../../network/http/http-client.ts';
import type { HttpRequest } from '../../network/http/request.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import type { NotificationParamsOf } from '../../protocol/registry.ts';
import { base64Length, writeBase64 } from '../../rpc/base64.ts';
import type { BytesMessage } from '../../transport/transport.ts';
import { type Access, isUnlimited } from '../auth/access.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { HTTP_ABORTS_PER_TURN, HTTP_REQUESTS_PER_CONNECTION, MAX_BODY_DELTA_BYTES } from '../limits.ts';

type BodyDelta = NotificationParamsOf<'http/request/bodyDelta'>;

/** Receives the pieces of streamed bodies. */
interface BodyPeer {
  readonly saturated: boolean;
  sendBulk(message: Uint8Array | BytesMessage): void;
  /** Whether so many bytes go in a binary message. Absent means no. */
  takesBytes?(length: number): boolean;
}

interface ConnectionHttpOptions {
  /** Creates the client; called for the first request. */
  client(): Promise<HttpClient>;
  /** Bytes of bodies that all requests together may hold in memory for their responses. */
  readonly maxBodyBytes: number;
  /** Called for each request. Throws NetworkError to refuse it, and returns a function to call at its end. */
  enter?(): () => void;
  /** Requests that may be open at a time. */
  readonly maxRequests?: number;
}

/** A response whose body has been read completely. `release` returns its bytes to the budget. */
interface WholeResponse extends Pick<HttpResponse, 'status' | 'fields'> {
  readonly body: Buffer;
  release(): void;
}

/** A response whose body is sent after `startBody` has been called. */
interface StreamedResponse extends Pick<HttpResponse, 'status' | 'fields'> {
  readonly startBody: () => void;
}

interface ActiveRequest {
  readonly requestId: string;
  readonly left: () => void;
  readonly ending: AbortController;
  /** Bytes that may be sent before the client reports more as consumed; null is no limit. */
  window: number | null;
  /** Resumes a body that is paused. */
  wake: () => void;
}

/**
 * The HTTP requests of one connection. When the client does not read, the server stops reading from the web servers: streamed
 * bodies pause while bulk data waits, other bodies while responses wait.
 */
export class ConnectionHttp {
  readonly #peer: BodyPeer;
  readonly #options: ConnectionHttpOptions;
  readonly #active = new Set<ActiveRequest>();
  readonly #streams = new Map<string, ActiveRequest>();
  #client: Promise<HttpClient> | null = null;
  #bodyBytes = 0;
  #responsesHeld = false;
  #inputEnded = false;
  #piecesSent = 0;
  #idleWaiters: (() => void)[] = [];
  #disposed = false;

  constructor(peer: BodyPeer, options: ConnectionHttpOptions) {
    this.#peer = peer;
    this.#options = options;
  }

  /** Sends a request and reads the whole response. Rejects with NetworkError. */
  async fetch(requestId: string, request: HttpRequest): Promise<WholeResponse> {
    const active = this.#enter(requestId, null);
    try {
      const { status, fields, body } = await this.#send(request, active);
      return { status, fields, ...(await this.#whole(body, active)) };
    } finally {
      this.#leave(active);
    }
  }

  /** Sends a request and resolves to the head of the response. The id is taken until the body is sent. Rejects with NetworkError. */
  async stream(
    requestId: string,
    request: HttpRequest,
    windowBytes: number | null,
  ): Promise<StreamedResponse> {
    if (this.#streams.has(requestId)) {
      throw new NetworkError(
        'invalid',
        `http/request streamResponse requestId \`${requestId}\` is already active`,
      );
    }
    const active = this.#enter(requestId, windowBytes);
    this.#streams.set(requestId, active);
    try {
      const response = await this.#send(request, active);
      const { status, fields } = response;
      return { status, fields, startBody: () => void this.#sendBody(response, active) };
    } catch (error) {
      this.#leave(active);
      throw error;
    }
  }

  /** Cancels the requests with this id. Returns whether there were any. */
  cancel(requestId: string): boolean {
    const requests = [...this.#active].filter((active) => active.requestId === requestId);
    void abortInTurns(requests, new Error('the request was cancelled'));
    return requests.length > 0;
  }

  /** The client has consumed `bytes` of a streamed body: the window grows by them. */
  consumed(requestId: string, bytes: number): void {
    const active = this.#streams.get(requestId);
    if (active === undefined || active.window === null) return;
    active.window += bytes;
    active.wake();
  }

  /** Pauses or resumes streamed bodies, depending on whether bulk data waits. */
  setPaused(paused: boolean): void {
    if (!paused) this.#wakeAll();
  }

  /** While the client leaves responses unread, no further body is read into memory. */
  setHeld(held: boolean): void {
    this.#responsesHeld = held;
    if (!held) this.#wakeAll();
  }

  /**
   * The client has ended its side of the connection. Resolves when every request is done and its body is sent. A body whose
   * window is used up is cut off, because the client can no longer enlarge the window.
   */
  async finish(): Promise<void> {
    this.#inputEnded = true;
    for (const active of this.#active) this.#endIfStuck(active);
    if (this.#active.size > 0) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  /** Number of pieces of bodies that were sent. It shows progress. */
  get piecesSent(): number {
    return this.#piecesSent;
  }

  /** Aborts every open request. */
  abortAll(): void {
    void abortInTurns([...this.#active], connectionEnded());
  }

  /** Aborts every open request and closes the connections to web servers. */
  dispose(): void {
    this.#disposed = true;
    const aborted = abortInTurns([...this.#active], connectionEnded());
    this.#client?.then(
      (client) => aborted.then(() => client.close()),
      () => {},
    );
  }

  #enter(requestId: string, window: number | null): ActiveRequest {
    const { maxRequests = HTTP_REQUESTS_PER_CONNECTION } = this.#options;
    if (this.#active.size >= maxRequests) {
      throw new NetworkError(
        'limit',
        `${maxRequests} http requests are open on this connection, the maximum`,
      );
    }
    const left = this.#options.enter?.() ?? (() => {});
    const active = { requestId, window, left, ending: new AbortController(), wake: () => {} };
    active.ending.signal.addEventListener('abort', () => active.wake());
    this.#active.add(active);
    return active;
  }

  #leave(active: ActiveRequest): void {
    active.left();
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
  ): Promise<Pick<WholeResponse, 'body' | 'release'>> {
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
        await this.#until(active, () => !this.#responsesHeld);
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

  /** Sends the body in pieces, and a last message that says how it ended. */
  async #sendBody({ body }: HttpResponse, active: ActiveRequest): Promise<void> {
    const { requestId } = active;
    let seq = 1;
    let error: string | null = null;
    try {
      for await (const piece of body) {
        for (let from = 0; from < piece.length; from += MAX_BODY_DELTA_BYTES) {
          const part = piece.subarray(from, from + MAX_BODY_DELTA_BYTES);
          const isBinary = this.#peer.takesBytes?.(part.length) ?? false;
          this.#peer.sendBulk((isBinary ? binaryDelta : bodyDelta)(requestId, seq++, part));
          this.#piecesSent++;
        }
        if (active.window !== null) active.window -= piece.length;
        this.#endIfStuck(active);
        await this.#until(active, () => !this.#peer.saturated && (active.window ?? 1) > 0);
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
    if (!this.#inputEnded || window === null || window > 0) return;
    ending.abort(new Error('the window is used up, and the client has ended its side of the connection'));
  }

  /** Waits until the body may continue. Returns early when the request is aborted; reading the next piece fails then. */
  async #until(active: ActiveRequest, mayContinue: () => boolean): Promise<void> {
    while (!mayContinue() && !active.ending.signal.aborted) {
      await new Promise<void>((resolve) => {
        active.wake = resolve;
      });
    }
  }

  #wakeAll(): void {
    for (const active of this.#active) active.wake();
  }
}

/**
 * Creates the HTTP client of one connection. Only a connection with full access may use any variable of the server in a header, because
 * it can also read them by a program. Rejects with StartError when a setting is invalid.
 */
export async function openHttpClient(config: ExecServerConfig, access: Access): Promise<HttpClient> {
  const [{ HttpClient }, policy, listed] = await Promise.all([
    import('../../network/http/http-client.ts'),
    hostPolicyOf(config),
    listedVariables(config),
  ]);
  const headerVariables = isUnlimited(access) ? 'any' : listed;
  return new HttpClient({ env: process.env, headerVariables, policy });
}

/** Rejects with StartError, which names the option, when a list of hosts or variables is invalid. */
export async function refuseBadNetworkSettings(config: ExecServerConfig): Promise<void> {
  if (config.httpAllowedHosts !== '' || config.httpDeniedHosts !== '') await hostPolicyOf(config);
  if (config.httpHeaderVariables !== '') await listedVariables(config);
  if (config.tcpAllowedHosts !== '') await hostList(config.tcpAllowedHosts, '--tcp-allowed-hosts');
}

async function listedVariables(config: ExecServerConfig): Promise<ReadonlySet<string>> {
  const { headerVariables } = await import('../../network/http/header-fields.ts');
  try {
    return headerVariables(config.httpHeaderVariables);
  } catch (error) {
    throw new StartError(`--http-header-variables: ${(error as Error).message}`);
  }
}

/** The hosts that `http/request` may reach. Rejects with StartError when a list of hosts cannot be read. */
export async function hostPolicyOf(config: ExecServerConfig): Promise<HostPolicy> {
  return {
    allowed: await hostList(config.httpAllowedHosts, '--http-allowed-hosts'),
    denied: await hostList(config.httpDeniedHosts, '--http-denied-hosts'),
    privateAddresses: config.httpPrivateAddresses,
  };
}

/** Parses the list of hosts of an option; null when it is empty. Rejects with StartError, which names the option. */
export async function hostList(list: string, option: string): Promise<HostPolicy['allowed']> {
  const { hostPatterns } = await import('../../network/http/host-policy.ts');
  let patterns: HostPolicy['allowed'];
  try {
    patterns = hostPatterns(list);
  } catch (error) {
    throw new StartError(`${option}: ${(error as Error).message}`);
  }
  // A list is meant to keep some hosts out. One that is empty by mistake must not allow every host.
  if (patterns === null && list !== '') throw new StartError(`${option}: the list has no hosts`);
  return patterns;
}

function connectionEnded(): Error {
  return new Error('the connection has ended');
}

const AFTER_DELTA = Buffer.from('","done":false,"error":null}}');

/** The notification with a piece of a body as a binary message. Nothing changes the piece any more. */
function binaryDelta(requestId: string, seq: number, piece: Buffer): BytesMessage {
  return { text: `${beforeDelta(requestId, seq)}${AFTER_DELTA}`, bytes: piece };
}

/** Encodes the notification with a piece of a body into one buffer. */
function bodyDelta(requestId: string, seq: number, piece: Buffer): Buffer {
  const head = Buffer.from(beforeDelta(requestId, seq));
  const frame = Buffer.allocUnsafe(head.length + base64Length(piece.length) + AFTER_DELTA.length);
  head.copy(frame);
  writeBase64(frame, head.length, piece, AFTER_DELTA);
  return frame;
}

function beforeDelta(requestId: string, seq: number): string {
  const params = `{"requestId":${JSON.stringify(requestId)},"seq":${seq},"deltaBase64":"`;
  return `{"method":"http/request/bodyDelta","params":${params}`;
}

/** Aborts some requests now and some in each later turn of the event loop. Ending hundreds of connections in one turn would block it. */
async function abortInTurns(requests: readonly ActiveRequest[], error: Error): Promise<void> {
  for (const [index, { ending }] of requests.entries()) {
    if (index > 0 && index % HTTP_ABORTS_PER_TURN === 0) await nextTurn();
    ending.abort(error);
  }
}
