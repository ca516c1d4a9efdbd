import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ConnectionLimits } from '../../../listener/connection-slots.ts';
import { FailureDelay } from '../../../listener/failure-delay.ts';
import { encodeResponse, type HttpResponse, handshakeError } from '../../../listener/http-response.ts';
import { hostInUrl, type SocketAddress } from '../../../listener/listen-url.ts';
import { closeWithClient, refusalDelay } from '../../../listener/refusal-delay.ts';
import { listenError } from '../../../listener/start-error.ts';
import type { TlsFiles } from '../../../listener/tls.ts';
import { addressOf, WebServer } from '../../../listener/web-server.ts';
import type { Logger } from '../../../observability/log.ts';
import { type FrameSocket, FrameSocketUpgrader } from '../../../transport/frame-socket.ts';
import { MAX_FRAME_BYTES } from '../../limits.ts';
import { MAX_UNFINISHED_BYTES, PEER_SILENCE_MS, PING_INTERVAL_MS, REQUEST_TIMEOUT_MS } from '../limits.ts';
import type { RelayRecords } from '../records/relay-records.ts';
import { RequestError } from '../registry/request-error.ts';
import { type Calls, callOf, UnknownCredentialError } from './calls.ts';
import type { Admission } from './upgrades.ts';

/** Address, limits and handlers of the listener. */
interface RelayListenerOptions extends ConnectionLimits {
  readonly address: SocketAddress;
  readonly descriptor?: number | null;
  readonly tls: TlsFiles | null;
  /** Path prefixes of the relay's public URLs. */
  readonly basePaths: readonly string[];
  readonly servesMetrics: boolean;
  readonly calls: Calls;
  readonly records: RelayRecords;
  readonly log: Logger;
  /** Whether the node accepts new work. */
  isReady(): boolean;
  /** Authorizes an upgrade request. Throws RequestError. */
  admit(environmentId: string, ticket: string, socket: Duplex): Promise<Admission>;
}

/** The HTTP server of a relay: registry calls, health probes, metrics and websocket upgrades. */
export class RelayListener {
  readonly #options: RelayListenerOptions;
  readonly #server: WebServer;
  readonly #upgrader = new FrameSocketUpgrader({
    maxMessageBytes: MAX_FRAME_BYTES,
    maxUnfinishedBytes: MAX_UNFINISHED_BYTES,
    pingIntervalMs: PING_INTERVAL_MS,
    peerSilenceTimeoutMs: PEER_SILENCE_MS,
  });
  readonly #failures = new FailureDelay();
  #draining = false;

  constructor(options: RelayListenerOptions) {
    this.#options = options;
    this.#server = new WebServer(
      { ...options, requestTimeoutMs: REQUEST_TIMEOUT_MS },
      {
        request: (request, response) => void this.#respond(request, response),
        upgrade: (request, socket, head) => void this.#upgrade(request, socket, head),
        evict: (socket) => socket.destroy(),
      },
    );
  }

  /** Binds the address and resolves with the port. Rejects with StartError when the system refuses it. */
  async listen(): Promise<number> {
    const { secure, host, port } = this.#options.address;
    const bound = await this.#server.listen().catch((error: unknown) => {
      throw listenError(error, `${secure ? 'https' : 'http'}://${hostInUrl(host)}:${port}`);
    });
    return bound!.port;
  }

  /** Refuses new websockets and reports not ready. Still answers calls and probes. */
  drain(): void {
    this.#draining = true;
  }

  /** Reloads certificates. Throws StartError and keeps the old ones on failure. */
  async reload(): Promise<void> {
    await this.#server.reload();
  }

  /** Closes the address and the remaining connections. */
  async close(): Promise<void> {
    await this.#server.close();
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request;
    let answer: HttpResponse;
    try {
      answer = await this.#answer(request, addressOf(socket));
    } catch (error) {
      answer = await this.#refusal(error, socket);
    }
    response.writeHead(answer.status, answer.headers);
    response.end(request.method === 'HEAD' ? '' : answer.body);
  }

  async #answer(request: IncomingMessage, address: string | null): Promise<HttpResponse> {
    refuseBrowsers(request);
    const path = this.#pathOf(request);
    const { servesMetrics, calls, records } = this.#options;
    const call = callOf(path);
    if (call !== null) return jsonResponse(200, await calls.answer(request, call, address));
    if (request.method !== 'GET' && request.method !== 'HEAD') throw notFound();
    if (path === '/healthz') return textResponse(200, '');
    if (path === '/readyz') return textResponse(this.#isReady() ? 200 : 503, '');
    if (path !== '/metrics' || !servesMetrics) throw notFound();
    calls.authorize(request, 'metrics', null);
    return textResponse(200, records.metrics.text(), records.metrics.contentType);
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy());
    try {
      const admission = await this.#admit(request, socket);
      let accepted = false;
      const accept = (frames: FrameSocket) => {
        accepted = true;
        this.#server.slots.admit(socket);
        admission.accept(frames);
      };
      this.#upgrader.upgrade(request, socket, head, accept, admission.credit);
      if (!accepted) admission.abandon();
    } catch (error) {
      closeWithClient(socket);
      const refusal = await this.#refusal(error, socket);
      socket.end(encodeResponse(refusal, STATUS_CODES[refusal.status] ?? ''), () => socket.destroy());
    }
  }

  async #admit(request: IncomingMessage, socket: Duplex): Promise<Admission> {
    refuseBrowsers(request);
    const environmentId = RENDEZVOUS.exec(this.#pathOf(request))?.[1];
    if (environmentId === undefined || request.method !== 'GET') throw notFound();
    const malformed = handshakeError(request);
    if (malformed !== null) throw new RequestError(malformed.status, 'invalid_request', malformed.body);
    this.#refuseWhileDraining();
    const limit = this.#server.slots.limitReached(socket);
    if (limit !== null) throw new RequestError(503, 'too_many_connections', limit);
    const ticket = new URLSearchParams(request.url?.split('?')[1]).get('ticket') ?? '';
    const admission = await this.#options.admit(environmentId, ticket, socket);
    try {
      this.#refuseWhileDraining();
      return admission;
    } catch (error) {
      admission.abandon();
      throw error;
    }
  }

  #refuseWhileDraining(): void {
    if (this.#draining) throw new RequestError(503, 'shutting_down', 'this node is shutting down');
  }

  /** Records a refusal and returns its response. Delays the response to an unknown credential. */
  async #refusal(error: unknown, socket: Duplex): Promise<HttpResponse> {
    const { records, log } = this.#options;
    if (!(error instanceof RequestError)) {
      // ECONNRESET: the client disconnected during its request, which is not an error of the relay.
      const isLost = (error as NodeJS.ErrnoException).code === 'ECONNRESET';
      if (!isLost) log.error('request failed', { reason: (error as Error).message });
      return errorResponse(500, 'internal_error', 'internal error of the relay');
    }
    const { status, code, message, tokenId } = error;
    records.connectionRejected(status, message, addressOf(socket), tokenId);
    if (error instanceof UnknownCredentialError)
      await refusalDelay(socket, this.#failures.failed(addressOf(socket)));
    return errorResponse(status, code, message);
  }

  #isReady(): boolean {
    return !this.#draining && this.#options.isReady();
  }

  /** Returns the path of a request without the query and the path prefix. */
  #pathOf(request: IncomingMessage): string {
    const path = (request.url ?? '/').split('?', 1)[0]!;
    const base = this.#options.basePaths.find((candidate) => path.startsWith(`${candidate}/`));
    return path.slice(base?.length ?? 0);
  }
}

const RENDEZVOUS = /^\/cloud\/rendezvous\/([A-Za-z0-9_-]{1,64})$/;

/** Browsers send Origin. No web page is a client of the relay. */
function refuseBrowsers(request: IncomingMessage): void {
  if (request.headers.origin !== undefined) {
    throw new RequestError(403, 'forbidden', 'the relay does not accept requests from browsers');
  }
}

function notFound(): RequestError {
  return new RequestError(404, 'not_found', 'not found');
}

function errorResponse(status: number, code: string, message: string): HttpResponse {
  const { headers, ...rest } = jsonResponse(status, { error: { code, message } });
  // Closes the connection, because the rest of the request is not read.
  const close = { connection: 'close', ...(status === 405 && { allow: 'POST' }) };
  return { ...rest, headers: { ...headers, ...close, ...(status === 401 && BEARER) } };
}

const BEARER = { 'www-authenticate': 'Bearer' };

function jsonResponse(status: number, body: Readonly<Record<string, unknown>>): HttpResponse {
  return textResponse(status, JSON.stringify(body), 'application/json');
}

function textResponse(status: number, body: string, type = 'text/plain; charset=utf-8'): HttpResponse {
  const headers = {
    'content-type': type,
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
  };
  return { status, body, headers };
}
