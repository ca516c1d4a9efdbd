import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Logger } from '../observability/log.ts';
import { Metrics } from '../observability/metrics.ts';
import { createHostCheck, type HostCheck } from './host-check.ts';
import { encodeResponse, type HttpResponse, textResponse } from './http-response.ts';
import { MAX_METRICS_SOCKETS, METRICS_REQUEST_TIMEOUT_MS } from './limits.ts';
import { hostInUrl, isLoopback, ListenUrlError, parseListenUrl, type SocketAddress } from './listen-url.ts';
import type { MetricsToken } from './metrics-token.ts';
import { closeWithClient, refusalDelay } from './refusal-delay.ts';
import { listenError, StartError } from './start-error.ts';
import { addressOf, WebServer } from './web-server.ts';

/** Where metrics are served, and what is served. */
interface MetricsListenerOptions {
  readonly address: SocketAddress;
  /** Null when scrapers need no token. */
  readonly token: MetricsToken | null;
  readonly log: Logger;
  /** Whether `/readyz` answers 200. */
  isReady(): boolean;
  /** The metrics in the Prometheus text format. */
  scrape(): string;
}

/** An HTTP listener for scrapers and health probes alone: `/metrics`, `/healthz` and `/readyz`. */
export class MetricsListener {
  readonly #options: MetricsListenerOptions;
  readonly #server: WebServer;
  readonly #hostCheck: HostCheck;

  constructor(options: MetricsListenerOptions) {
    this.#options = options;
    const { host } = options.address;
    // Other machines may use any name. On loopback a name that leads here belongs to a web page (DNS rebinding).
    this.#hostCheck = createHostCheck(host, isLoopback(host) ? '' : '*');
    const limits = {
      maxConnections: MAX_METRICS_SOCKETS,
      maxConnectionsPerAddress: MAX_METRICS_SOCKETS,
      maxSockets: MAX_METRICS_SOCKETS,
    };
    this.#server = new WebServer(
      { ...options, ...limits, tls: null, requestTimeoutMs: METRICS_REQUEST_TIMEOUT_MS },
      {
        request: (request, response) => void this.#respond(request, response),
        // Some clients send an upgrade header with every request, for example for h2c.
        upgrade: (request, socket) => {
          socket.on('error', () => socket.destroy());
          closeWithClient(socket);
          void this.#answer(request).then((answer) =>
            socket.end(encodeResponse(answer, STATUS_CODES[answer.status] ?? ''), () => socket.destroy()),
          );
        },
        evict: (socket) => socket.destroy(),
      },
    );
  }

  /** Binds the address and resolves to the URL of the metrics. Rejects with StartError when the system refuses the address. */
  async listen(): Promise<string> {
    const { host, port } = this.#options.address;
    const urlOf = (bound: number) => `http://${hostInUrl(host)}:${bound}/metrics`;
    const bound = await this.#server.listen().catch((error: unknown) => {
      throw listenError(error, urlOf(port));
    });
    const url = urlOf(bound!.port);
    const { log, token } = this.#options;
    log.info('metrics listening', { url });
    if (token === null && !isLoopback(host)) {
      log.warn('other machines can read the metrics: add --metrics-token-file, or listen on 127.0.0.1', {
        url,
      });
    }
    return url;
  }

  /** Frees the address and closes the connections. */
  async close(): Promise<void> {
    await this.#server.close();
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, headers, body } = await this.#answer(request);
    response.writeHead(status, headers);
    response.end(request.method === 'HEAD' ? '' : body);
  }

  async #answer(request: IncomingMessage): Promise<HttpResponse> {
    const { isReady, scrape, token, log } = this.#options;
    if (request.headers.origin !== undefined) return textResponse(403);
    if (!this.#hostCheck(request.headers.host)) return textResponse(421);
    const path = (request.url ?? '/').split('?', 1)[0];
    const isProbe = path === '/healthz' || path === '/readyz';
    if (!isProbe && path !== '/metrics') return textResponse(404);
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return textResponse(405, '', { allow: 'GET,HEAD' });
    if (isProbe) return textResponse(path === '/healthz' || isReady() ? 200 : 503);
    const address = addressOf(request.socket);
    const refused = token?.check(request.headers.authorization, address) ?? null;
    if (refused === null) return textResponse(200, scrape(), { 'content-type': Metrics.contentType });
    log.info('scraper refused', { reason: refused.refusal, address });
    await refusalDelay(request.socket, refused.delayMs);
    return textResponse(401, `${refused.refusal}\n`, { 'www-authenticate': 'Bearer' });
  }
}

/** Parses the `IP:PORT` of a metrics listener. Throws StartError, which names the flag. */
export function parseMetricsAddress(text: string): SocketAddress {
  try {
    return parseListenUrl(`ws://${text}`) as SocketAddress;
  } catch (error) {
    if (!(error instanceof ListenUrlError)) throw error;
    throw new StartError(`--metrics-listen: '${text}' is not an address; write it like 127.0.0.1:9464`);
  }
}
