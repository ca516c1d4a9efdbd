import type { IncomingMessage, ServerResponse } from 'node:http';
import { createMcpHandler, isLegacyRequest, type McpHttpHandler } from '@modelcontextprotocol/server';
import { createHostCheck, type HostCheck } from '../../listener/host-check.ts';
import { type HttpResponse, textResponse } from '../../listener/http-response.ts';
import { SLOTS_FOR_NEW_CLIENTS } from '../../listener/limits.ts';
import { hostInUrl, type SocketAddress } from '../../listener/listen-url.ts';
import { refusalDelay } from '../../listener/refusal-delay.ts';
import { listenError } from '../../listener/start-error.ts';
import type { TlsFiles } from '../../listener/tls.ts';
import { addressOf, WebServer } from '../../listener/web-server.ts';
import type { Logger } from '../../observability/log.ts';
import type { Gate } from '../../server/auth/gate.ts';
import { anonymousPrincipal, type Principal } from '../../server/auth/principal.ts';
import { forbidden, hostOf, misdirected, unauthorized } from '../../server/listen/http-routes.ts';
import type { AgentServers } from '../agent-server.ts';
import { MAX_BATCH, MAX_HTTP_CONNECTIONS, MAX_PIPELINED_REQUESTS, REQUEST_TIMEOUT_MS } from '../limits.ts';
import { ResultBudget } from '../result-budget.ts';
import { RefusedRequest, RequestBodies } from './request-body.ts';
import { Sessions } from './sessions.ts';
import { sendWebResponse, toWebRequest } from './web-exchange.ts';

/** Address and access of the listener. */
export interface McpListenerOptions {
  readonly address: SocketAddress;
  /** Null without TLS. */
  readonly tls: TlsFiles | null;
  /** Host names that are accepted besides loopback and the address itself, separated by commas. */
  readonly allowedHost: string;
  /** Checks tokens; null when clients need none. */
  readonly gate: Gate | null;
  /** Whether the tools only read, so that a token needs less. */
  readonly readOnly: boolean;
  readonly log: Logger;
}

/** Where clients send their requests. */
const PATH = '/mcp';

/**
 * Serves MCP over streamable HTTP to both generations of clients. It checks Host, Origin and token before it reads a request, like the
 * listener of websockets.
 */
export class McpListener {
  readonly #options: McpListenerOptions;
  readonly #web: WebServer;
  readonly #hostCheck: HostCheck;
  readonly #bodies = new RequestBodies();
  readonly #results = new ResultBudget();
  readonly #sessions: Sessions;
  /** Clients of the stateless protocol. */
  readonly #modern: McpHttpHandler;
  #isClosing = false;
  /** Connections that have had an admitted request. */
  readonly #admitted = new WeakSet<object>();
  /** Requests of a connection that are not answered yet. */
  readonly #underWay = new WeakMap<object, number>();

  constructor(servers: AgentServers, options: McpListenerOptions) {
    this.#options = options;
    const { address, allowedHost, log } = options;
    this.#hostCheck = createHostCheck(address.host, allowedHost);
    this.#sessions = new Sessions(servers);
    const connection = servers.connection('never');
    const onerror = ({ message }: Error) => log.debug('MCP', { reason: message });
    this.#modern = createMcpHandler(() => servers.server(connection), { legacy: 'reject', onerror });
    this.#web = new WebServer(
      {
        ...options,
        maxConnections: MAX_HTTP_CONNECTIONS,
        maxConnectionsPerAddress: MAX_HTTP_CONNECTIONS,
        maxSockets: MAX_HTTP_CONNECTIONS + SLOTS_FOR_NEW_CLIENTS,
        requestTimeoutMs: REQUEST_TIMEOUT_MS,
      },
      {
        request: (request, response) => void this.#respond(request, response),
        upgrade: (_request, socket) => socket.destroy(),
        evict: (socket) => socket.destroy(),
      },
    );
  }

  /** Binds the address and resolves to the URL for clients. Rejects with StartError when the system refuses it. */
  async listen(): Promise<string> {
    const { secure, host, port } = this.#options.address;
    const urlAt = (bound: number) => `${secure ? 'https' : 'http'}://${hostInUrl(host)}:${bound}${PATH}`;
    const bound = await this.#web.listen().catch((error: unknown) => {
      throw listenError(error, urlAt(port));
    });
    return urlAt(bound!.port);
  }

  /** Reads the certificates again. Throws StartError and keeps the old ones. */
  async reload(): Promise<void> {
    await this.#web.reload();
  }

  /** Ends all sessions and streams and frees the address. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.all([this.#sessions.close(), this.#modern.close()]);
    await this.#web.close();
  }

  async #respond(request: IncomingMessage, output: ServerResponse): Promise<void> {
    const closed = new Promise<void>((resolve) => output.once('close', resolve));
    if (!this.#countRequest(request, closed)) return;
    try {
      const refused = this.#refusalOf(request);
      if (refused !== null) {
        send(output, refused);
        return;
      }
      const principal = await this.#authenticate(request);
      if ('status' in principal) send(output, principal);
      else await this.#answer(request, output, principal, closed);
    } catch (error) {
      this.#fail(error, request, output);
    }
  }

  /** Counts the requests that a client sends without waiting for answers. Returns false, and disconnects it, when they are too many. */
  #countRequest({ socket }: IncomingMessage, closed: Promise<void>): boolean {
    const count = (this.#underWay.get(socket) ?? 0) + 1;
    if (count > MAX_PIPELINED_REQUESTS) {
      socket.destroy();
      return false;
    }
    this.#underWay.set(socket, count);
    void closed.then(() => this.#underWay.set(socket, this.#underWay.get(socket)! - 1));
    return true;
  }

  /** The checks that need no token. */
  #refusalOf(request: IncomingMessage): HttpResponse | null {
    const host = hostOf(request);
    if (!this.#hostCheck(host)) return misdirected(host ?? '');
    const { origin } = request.headers;
    // No page has this server's own origin: it serves none.
    const own = `${this.#options.address.secure ? 'https' : 'http'}://${host}`;
    if (origin !== undefined && origin !== own) return forbidden('web pages must not use this server\n');
    const path = request.url?.split('?', 1)[0];
    if (path === '/healthz') return textResponse(200);
    if (path !== PATH) return textResponse(404, `MCP is served at ${PATH}\n`);
    const limit = this.#web.slots.limitReached(request.socket);
    return limit === null ? null : textResponse(503, `${limit}\n`);
  }

  async #authenticate(request: IncomingMessage): Promise<Principal | HttpResponse> {
    const { gate, readOnly, log } = this.#options;
    const address = addressOf(request.socket);
    if (gate === null) return anonymousPrincipal(address);
    const admission = await gate(request.headers.authorization, address);
    if ('refusal' in admission) {
      const { refusal: reason, delayMs, tokenId = null } = admission;
      log[delayMs > 0 ? 'warn' : 'info']('client refused', { reason, address, token: tokenId });
      await refusalDelay(request.socket, delayMs);
      return unauthorized(
        request.headers.authorization === undefined ? NO_TOKEN : `${reason.replace('websocket ', '')}\n`,
      );
    }
    const { exec, observe, files, below } = admission.principal.access;
    const mayUse = readOnly ? files !== 'none' && (exec || observe) : exec && files === 'write';
    return mayUse && below === null ? admission.principal : forbidden(LIMITED_TOKEN);
  }

  async #answer(
    request: IncomingMessage,
    output: ServerResponse,
    { owner }: Principal,
    closed: Promise<void>,
  ): Promise<void> {
    this.#admit(request);
    const body = request.method === 'POST' ? await this.#bodies.read(request) : null;
    try {
      const leave = new AbortController();
      void closed.then(() => leave.abort());
      const url = new URL(PATH, `http://${hostInUrl(this.#options.address.host)}`);
      const web = toWebRequest(request, url, leave.signal);
      const value = body?.value;
      if (Array.isArray(value) && value.length > MAX_BATCH) {
        throw new RefusedRequest(400, `the request has more than ${MAX_BATCH} messages`);
      }
      const isLegacy = await isLegacyRequest(web, value);
      const response = await this.#results.run(clientOf(request, owner), closed, () =>
        isLegacy
          ? this.#sessions.answer(web, value, owner, closed)
          : this.#modern.fetch(web, { parsedBody: value }),
      );
      await sendWebResponse(response, output);
    } finally {
      body?.release();
    }
  }

  /** A connection with an admitted request keeps its slot until it closes. */
  #admit({ socket }: IncomingMessage): void {
    if (this.#admitted.has(socket)) return;
    this.#admitted.add(socket);
    this.#web.slots.admit(socket);
  }

  #fail(error: unknown, request: IncomingMessage, output: ServerResponse): void {
    if (this.#isClosing && !output.headersSent) {
      send(output, jsonRpcError(503, 'the server is shutting down'));
      return;
    }
    const isRefused = error instanceof RefusedRequest;
    // A client that disconnects during its request is no error.
    if (!isRefused && !this.#isClosing && !output.destroyed && !request.socket.destroyed) {
      this.#options.log.error('request failed', { reason: (error as Error).message });
    }
    if (output.headersSent) output.destroy();
    else if (isRefused) send(output, jsonRpcError(error.status, error.message));
    else send(output, jsonRpcError(500, 'internal error'));
  }
}

const NO_TOKEN = 'this server needs a token; send it in the header "Authorization: Bearer TOKEN"\n';

const LIMITED_TOKEN =
  'the token does not allow MCP: it needs the scopes exec and files, or with --read-only the scopes read-only and observe, and no limit to a directory\n';

/** The client that the limit of concurrent calls applies to: a session of the 2025 protocol, else all tokens of one owner. */
function clientOf({ headers }: IncomingMessage, owner: string): string {
  return JSON.stringify([owner, headers['mcp-session-id'] ?? null]);
}

function jsonRpcError(status: number, message: string): HttpResponse {
  const body = JSON.stringify({ jsonrpc: '2.0', error: { code: -32_000, message }, id: null });
  return {
    status,
    body,
    headers: { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) },
  };
}

/** Closes the connection after a refusal, because the rest of the request is not read. */
function send(output: ServerResponse, { status, body, headers }: HttpResponse): void {
  output.writeHead(status, { ...headers, ...(status >= 400 && { connection: 'close' }) });
  output.end(body);
}
