import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { LenientSocket } from '../failed-writes.ts';
import type { AccessRequest, Admission } from './admission.ts';
import { blockedBody, blockedText } from './blocked-response.ts';
import type { Credentials } from './credentials.ts';
import { parseAuthority } from './host.ts';
import { endWith, exchange, RequestQueue, requestHeaders, respond, unforwardable } from './http-exchange.ts';
import { type HttpTarget, httpTarget } from './http-message.ts';
import type { Interception } from './interception/interception.ts';
import {
  HEAD_TIMEOUT_MS,
  IDLE_TIMEOUT_MS,
  KEEP_ALIVE_MS,
  MAX_CONNECTIONS,
  MAX_HEADER_BYTES,
} from './limits.ts';
import { abortOnClose, connectToOne, joinSockets } from './tunnel.ts';

/** What the HTTP listener of a proxy needs. */
interface HttpProxyContext {
  readonly admission: Admission;
  /** Required credentials; null where only the proxy's own program can connect. */
  readonly credentials: Credentials | null;
  /** Null without interception. */
  readonly interception: Interception | null;
  /** This server's name in `Via`. */
  readonly via: string;
  /** Aborted when the proxy closes. */
  readonly closing: AbortSignal;
}

/** Creates a server that forwards plain HTTP requests, and connections after CONNECT. It does not listen yet. */
export function createHttpProxy(context: HttpProxyContext): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    // Overrides Node's command-line options.
    insecureHTTPParser: false,
    headersTimeout: HEAD_TIMEOUT_MS,
    requestTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requireHostHeader: false,
    noDelay: true,
  });
  server.maxConnections = MAX_CONNECTIONS;
  // The size of the head is limited in bytes. A limit on the number of headers would drop the rest silently.
  server.maxHeadersCount = 0;
  server.timeout = IDLE_TIMEOUT_MS;
  const queue = new RequestQueue();
  server.on('request', (incoming, response) => {
    queue.take(incoming.socket, () => forward(context, incoming, response));
  });
  server.on('connect', (incoming, socket, head) => {
    tunnel(context, incoming, socket, head).catch(() => socket.destroy());
  });
  return server;
}

async function forward(
  context: HttpProxyContext,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = abortOnClose(response, context.closing);
  if (!isAuthorized(context, incoming)) return respond(response, 407, AUTHENTICATION_REQUIRED, AUTHENTICATE);
  const { method = 'GET', socket } = incoming;
  if (incoming.headers['x-unix-socket'] !== undefined) {
    const target = { host: { name: 'unix-socket', address: null }, port: 0 };
    context.admission.refuse(
      { protocol: 'http', ...target, method, client: clientOf(socket) },
      'unix_socket_unsupported',
    );
    return respond(response, 501, 'unix sockets unsupported');
  }
  const target = httpTarget(incoming);
  if (typeof target === 'string') return respond(response, 400, target);
  const refusal = unforwardable(incoming, context.via);
  if (refusal !== null) return respond(response, refusal.status, refusal.text);
  const access: AccessRequest = { protocol: 'http', ...target, method, client: clientOf(socket) };
  const admitted = await context.admission.admit(access, gone);
  if (admitted.block !== undefined) {
    const { block } = admitted;
    const headers = { 'content-type': 'application/json', 'x-proxy-error': blockedText(block).proxyError };
    return respond(response, 403, blockedBody(access, block), headers);
  }
  let upstream: Socket | null = null;
  try {
    upstream = await connectToOne(admitted.addresses, target.port, gone);
    await passOn(context, incoming, response, target, upstream);
  } catch {
    upstream?.destroy();
    respond(response, 502, 'upstream failure');
  }
}

function passOn(
  { via, interception }: HttpProxyContext,
  incoming: IncomingMessage,
  response: ServerResponse,
  target: HttpTarget,
  upstream: Socket,
): Promise<void> {
  const { path, hostHeader } = target;
  const headers = requestHeaders(incoming, hostHeader, upstream.remoteAddress, via);
  interception?.unmaskPlain(headers, target, incoming.method ?? 'GET', upstream);
  return exchange(incoming, response, { path, headers, connection: { createConnection: () => upstream } });
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
  if (target === null) return endWith(client, 400, 'Bad Request', [], 'CONNECT needs a host and a port');
  const access: AccessRequest = {
    protocol: 'https_connect',
    ...target,
    method: 'CONNECT',
    client: clientOf(client),
    intercepted: context.interception?.intercepts(target) ?? false,
  };
  const admitted = await context.admission.admit(access, gone);
  if (admitted.block !== undefined) {
    const { proxyError, message } = blockedText(admitted.block);
    return endWith(client, 403, 'Forbidden', [['x-proxy-error', proxyError]], message);
  }
  let upstream: LenientSocket;
  try {
    upstream = await connectToOne(admitted.addresses, target.port, gone);
  } catch {
    return endWith(client, 502, 'Bad Gateway', [], 'upstream failure');
  }
  client.write('HTTP/1.1 200 OK\r\n\r\n');
  if (head.length > 0) client.unshift(head);
  if (access.intercepted) await context.interception?.join(client, upstream, access);
  else joinSockets(client, upstream);
}

const AUTHENTICATION_REQUIRED = 'this proxy belongs to another program';
const AUTHENTICATE = { 'proxy-authenticate': 'Basic realm="exec-server"' };

function isAuthorized({ credentials }: HttpProxyContext, incoming: IncomingMessage): boolean {
  return credentials === null || credentials.matchHeader(incoming.headers['proxy-authorization']);
}

function clientOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? ''}:${remotePort ?? 0}`;
}
