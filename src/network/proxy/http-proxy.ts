import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import { isPublicAddress } from './addresses.ts';
import type { AccessRequest, Admission } from './admission.ts';
import { blockedBody, blockedText } from './blocked-texts.ts';
import type { Credentials } from './credentials.ts';
import { parseAuthority } from './host.ts';
import { endToEndHeaders, groupedHeaders } from './http-headers.ts';
import { type HttpTarget, httpTarget } from './http-target.ts';
import {
  HEAD_TIMEOUT_MS,
  IDLE_TIMEOUT_MS,
  KEEP_ALIVE_MS,
  MAX_CONNECTIONS,
  MAX_HEADER_BYTES,
  MAX_REQUESTS_AHEAD,
} from './limits.ts';
import { connectToOne, joinSockets } from './tunnel.ts';

/** What the HTTP listener of a proxy works with. */
export interface HttpProxyContext {
  readonly admission: Admission;
  /** What clients must present; null where only one program can connect. */
  readonly credentials: Credentials | null;
  /** How this server names itself in `Via`. */
  readonly via: string;
  /** Aborted when the proxy closes. */
  readonly closing: AbortSignal;
}

/** A server that forwards plain HTTP requests, and connections after CONNECT. It does not listen yet. */
export function createHttpProxy(context: HttpProxyContext): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEAD_TIMEOUT_MS,
    requestTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requireHostHeader: false,
    noDelay: true,
  });
  server.maxConnections = MAX_CONNECTIONS;
  // Their number is bounded by their bytes; a limit here would drop the rest without a word.
  server.maxHeadersCount = 0;
  server.timeout = IDLE_TIMEOUT_MS;
  const turns = new Turns();
  server.on('request', (incoming, response) => {
    turns.take(incoming.socket, () => forward(context, incoming, response));
  });
  server.on('connect', (incoming, socket, head) => {
    tunnel(context, incoming, socket, head).catch(() => socket.destroy());
  });
  return server;
}

/** Serves the requests of a connection one after another, however many a client sends ahead. */
class Turns {
  readonly #queues = new WeakMap<Socket, { waiting: number; last: Promise<void> }>();

  take(socket: Socket, serve: () => Promise<void>): void {
    const queue = this.#queues.get(socket) ?? { waiting: 0, last: Promise.resolve() };
    this.#queues.set(socket, queue);
    if (queue.waiting >= MAX_REQUESTS_AHEAD) {
      socket.destroy();
      return;
    }
    queue.waiting++;
    queue.last = queue.last
      .then(serve)
      .catch(() => void socket.destroy())
      .finally(() => queue.waiting--);
  }
}

async function forward(
  context: HttpProxyContext,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = abortOnClose(response, context.closing);
  if (!isAuthorized(context, incoming)) return answer(response, 407, AUTHENTICATION_REQUIRED, AUTHENTICATE);
  const { method = 'GET', socket } = incoming;
  if (incoming.headers['x-unix-socket'] !== undefined) {
    const target = { host: { name: 'unix-socket', address: null }, port: 0 };
    context.admission.refuse(
      { protocol: 'http', ...target, method, client: clientOf(socket) },
      'unix_socket_unsupported',
    );
    return answer(response, 501, 'unix sockets unsupported');
  }
  const target = httpTarget(incoming);
  if (typeof target === 'string') return answer(response, 400, target);
  const coding = incoming.headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    return answer(response, 501, 'only the transfer encoding chunked is forwarded');
  }
  if (namesVia(incoming, context.via))
    return answer(response, 508, 'the request came through this proxy before');
  const access: AccessRequest = { protocol: 'http', ...target, method, client: clientOf(socket) };
  const admitted = await context.admission.admit(access, gone);
  if (admitted.block !== undefined) {
    const { block } = admitted;
    const headers = { 'content-type': 'application/json', 'x-proxy-error': blockedText(block).proxyError };
    return answer(response, 403, blockedBody(access, block), headers);
  }
  let upstream: Socket | null = null;
  try {
    upstream = await connectToOne(admitted.addresses, target.port, gone);
    await exchange(context, incoming, response, target, upstream);
  } catch {
    upstream?.destroy();
    answer(response, 502, 'upstream failure');
  }
}

/** Sends the request and brings the answer. Rejects when there is none; one that breaks off ends the client's connection. */
function exchange(
  context: HttpProxyContext,
  incoming: IncomingMessage,
  response: ServerResponse,
  target: HttpTarget,
  upstream: Socket,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const outgoing = request({
      method: incoming.method ?? 'GET',
      path: target.path,
      setHost: false,
      maxHeaderSize: MAX_HEADER_BYTES,
      createConnection: () => upstream,
      timeout: IDLE_TIMEOUT_MS,
    });
    const chunked = incoming.headers['transfer-encoding'] !== undefined;
    // A request without a body stays one: nothing is added that announces it.
    outgoing.useChunkedEncodingByDefault = chunked;
    for (const [name, values] of requestHeaders(context, incoming, target, upstream).values()) {
      outgoing.setHeader(name, values);
    }
    outgoing.on('timeout', () => outgoing.destroy());
    outgoing.on('error', reject);
    outgoing.on('close', () => resolve());
    outgoing.on('response', (answered) => {
      response.sendDate = false;
      keepSilently(response);
      const headers = endToEndHeaders(answered.rawHeaders).flat();
      response.writeHead(answered.statusCode ?? 502, answered.statusMessage ?? '', headers);
      response.flushHeaders();
      pipeline(answered, response, () => resolve());
    });
    response.on('close', () => outgoing.destroy());
    pipeline(incoming, outgoing, () => {});
  });
}

function requestHeaders(
  { via }: HttpProxyContext,
  incoming: IncomingMessage,
  target: HttpTarget,
  upstream: Socket,
): Map<string, [string, string[]]> {
  const headers = groupedHeaders(endToEndHeaders(incoming.rawHeaders));
  // It was answered here; the web server would wait with its own answer for nothing.
  headers.delete('expect');
  if (!headers.has('host')) headers.set('host', ['Host', [target.hostHeader]]);
  if (incoming.headers['transfer-encoding'] !== undefined) {
    headers.set('transfer-encoding', ['Transfer-Encoding', ['chunked']]);
  }
  // Only something near could send the request back here, and web servers elsewhere need not know of the proxy.
  if (!isPublicAddress(upstream.remoteAddress ?? '')) {
    headers.set('via', ['Via', [...(headers.get('via')?.[1] ?? []), `1.1 ${via}`]]);
  }
  return headers;
}

async function tunnel(
  context: HttpProxyContext,
  incoming: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const client = socket as Socket;
  client.on('error', () => {});
  const gone = abortOnClose(client, context.closing);
  if (!isAuthorized(context, incoming)) {
    const headers = Object.entries(AUTHENTICATE);
    return endWith(client, 407, 'Proxy Authentication Required', headers, AUTHENTICATION_REQUIRED);
  }
  const target = parseAuthority(incoming.url ?? '', null);
  if (target === null) return endWith(client, 400, 'Bad Request', [], 'CONNECT takes a host and a port');
  const access: AccessRequest = {
    protocol: 'https_connect',
    ...target,
    method: 'CONNECT',
    client: clientOf(client),
  };
  const admitted = await context.admission.admit(access, gone);
  if (admitted.block !== undefined) {
    const { proxyError, message } = blockedText(admitted.block);
    return endWith(client, 403, 'Forbidden', [['x-proxy-error', proxyError]], message);
  }
  try {
    const upstream = await connectToOne(admitted.addresses, target.port, gone);
    client.write('HTTP/1.1 200 OK\r\n\r\n');
    if (head.length > 0) upstream.write(head);
    joinSockets(client, upstream);
  } catch {
    endWith(client, 502, 'Bad Gateway', [], 'upstream failure');
  }
}

const AUTHENTICATION_REQUIRED = 'this proxy belongs to another program';
const AUTHENTICATE = { 'proxy-authenticate': 'Basic realm="exec-server"' };

function isAuthorized({ credentials }: HttpProxyContext, incoming: IncomingMessage): boolean {
  return credentials === null || credentials.matchHeader(incoming.headers['proxy-authorization']);
}

function namesVia(incoming: IncomingMessage, via: string): boolean {
  const { via: given } = incoming.headers;
  return [given ?? []].flat().some((value) => value.includes(via));
}

/** Answers once: what comes after the head of another answer, or after the client, is dropped. */
function answer(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  keepSilently(response);
  const length = Buffer.byteLength(body);
  response.writeHead(status, { 'content-type': 'text/plain', ...headers, 'content-length': length });
  response.end(body);
}

/** A connection that goes on needs no header that says so. */
function keepSilently(response: ServerResponse): void {
  if (response.shouldKeepAlive) response.removeHeader('connection');
}

/** Answers on a bare socket and ends it. */
function endWith(
  socket: Duplex,
  status: number,
  phrase: string,
  headers: readonly (readonly [string, string])[],
  body: string,
): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const lines = [
    `HTTP/1.1 ${status} ${phrase}`,
    'content-type: text/plain',
    ...headers.map(([name, value]) => `${name}: ${value}`),
    'connection: close',
    `content-length: ${Buffer.byteLength(body)}`,
    `date: ${new Date().toUTCString()}`,
  ];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

function clientOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? ''}:${remotePort ?? 0}`;
}

/** A signal that is aborted when the stream closes or the proxy does. */
function abortOnClose(stream: Duplex | ServerResponse, closing: AbortSignal): AbortSignal {
  const controller = new AbortController();
  const abort = () => controller.abort();
  closing.addEventListener('abort', abort, { once: true });
  stream.once('close', () => {
    closing.removeEventListener('abort', abort);
    abort();
  });
  if (closing.aborted) abort();
  return controller.signal;
}
