import { type Agent, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { watchForReset } from '../failed-writes.ts';
import { isPublicAddress } from './addresses.ts';
import { endToEndHeaders, groupedHeaders, type HeaderGroups } from './http-message.ts';
import { IDLE_TIMEOUT_MS, LINGER_MS, MAX_HEADER_BYTES, MAX_REQUESTS_AHEAD } from './limits.ts';

/** A request to a web server, and its connection. */
export interface Outgoing {
  /** A path with its query, or `*`. */
  readonly path: string;
  readonly headers: HeaderGroups;
  /** A connection for only this request, or an agent that has one. */
  readonly connection: { readonly createConnection: () => Socket } | { readonly agent: Agent };
}

/**
 * Sends the request and forwards the response, even one that arrives while the request is still being sent. Then the rest of the
 * request that the web server does not accept is read and dropped. Rejects without a response. When a response breaks off the client's
 * connection is closed after what was received.
 */
export function exchange(incoming: IncomingMessage, response: ServerResponse, out: Outgoing): Promise<void> {
  return new Promise((resolve, reject) => {
    const outgoing = outgoingRequest(incoming, out);
    let isAnswered = false;
    outgoing.on('error', (error) => {
      // After the response head an error belongs to the body, which reports it itself.
      if (!isAnswered) reject(error);
    });
    outgoing.on('close', () => {
      incoming.unpipe(outgoing).resume();
      // Also happens when a web server switches protocols without being asked.
      if (!isAnswered) reject(new Error('the web server has ended the connection'));
    });
    outgoing.on('response', (answered) => {
      if (!isForwardable(answered)) {
        outgoing.destroy(new Error('the web server does not speak HTTP'));
        return;
      }
      isAnswered = true;
      response.sendDate = false;
      // The connections to the client and to the web server are closed together.
      if ('agent' in out.connection && !outgoing.shouldKeepAlive) response.shouldKeepAlive = false;
      omitKeepAliveHeader(response);
      const headers = endToEndHeaders(answered.rawHeaders).flat();
      response.writeHead(answered.statusCode ?? 502, answered.statusMessage ?? '', headers);
      // Sends the head now with its original bytes; flushHeaders would encode non-ASCII bytes again.
      response.write(NOTHING);
      const wasReset = watchForReset(outgoing, answered);
      answered.on('error', () => breakOff(response));
      answered.on('end', () => {
        if (wasReset()) breakOff(response);
        else endResponse(response, () => outgoing.destroy());
      });
      answered.pipe(response, { end: false });
    });
    response.on('close', () => {
      outgoing.destroy();
      resolve();
    });
    incoming.on('error', () => {});
    incoming.pipe(outgoing);
  });
}

/**
 * Ends a response. When the connection ends with it, the rest of the request is read first: the kernel resets a connection that is
 * closed with unread data, and the client can lose the response. `dropRequest` ends the forwarding of the rest.
 */
function endResponse(response: ServerResponse, dropRequest = () => {}): void {
  const { req: incoming } = response;
  const staysOpen = response.shouldKeepAlive && incoming.httpVersion !== '1.0';
  if (staysOpen) {
    response.end();
    return;
  }
  if (!incoming.complete) dropRequest();
  afterRequest(incoming, () => response.end());
}

/** Closes the client's connection after the part of a response that was received. */
function breakOff({ req: incoming, socket }: ServerResponse): void {
  if (incoming.complete) {
    socket?.destroySoon();
    return;
  }
  socket?.end();
  afterRequest(incoming, () => socket?.destroy());
}

/** Reads the rest of a request, but not for long, and calls `done` once. */
export function afterRequest(incoming: IncomingMessage, done: () => void): void {
  if (incoming.complete || incoming.closed) {
    done();
    return;
  }
  const finish = () => {
    clearTimeout(timer);
    incoming.off('close', finish);
    done();
  };
  const timer = setTimeout(finish, LINGER_MS);
  incoming.once('close', finish).resume();
}

const NOTHING = Buffer.alloc(0);

/** Whether the status line of a response can be forwarded. Node parses any text, but refuses to write invalid characters. */
function isForwardable({ statusCode = 0, statusMessage = '' }: IncomingMessage): boolean {
  return statusCode >= 200 && /^[\t\x20-\x7e\x80-\xff]*$/.test(statusMessage);
}

/** The request that {@link exchange} sends, without its body. */
export function outgoingRequest(incoming: IncomingMessage, { path, headers, connection }: Outgoing) {
  const outgoing = request({
    method: incoming.method ?? 'GET',
    path,
    setHost: false,
    maxHeaderSize: MAX_HEADER_BYTES,
    insecureHTTPParser: false,
    timeout: IDLE_TIMEOUT_MS,
    ...connection,
  });
  // Adds no framing headers to a request without a body.
  outgoing.useChunkedEncodingByDefault = incoming.headers['transfer-encoding'] !== undefined;
  for (const [name, values] of headers.values()) outgoing.setHeader(name, values);
  outgoing.on('timeout', () => outgoing.destroy());
  return outgoing;
}

/** The headers of a request as they are forwarded to a web server at `address`. */
export function requestHeaders(
  incoming: IncomingMessage,
  hostHeader: string,
  address: string | undefined,
  via: string,
): HeaderGroups {
  const headers = groupedHeaders(endToEndHeaders(incoming.rawHeaders));
  // The proxy has already answered it; the web server would wait for nothing.
  headers.delete('expect');
  if (!headers.has('host')) headers.set('host', ['Host', [hostHeader]]);
  if (incoming.headers['transfer-encoding'] !== undefined) {
    headers.set('transfer-encoding', ['Transfer-Encoding', ['chunked']]);
    // With both, the next server might find a different end of the body (request smuggling).
    headers.delete('content-length');
  }
  // Only a nearby server could send the request back here. Public web servers need not know about the proxy.
  if (!isPublicAddress(address ?? '')) {
    headers.set('via', ['Via', [...(headers.get('via')?.[1] ?? []), `1.1 ${via}`]]);
  }
  return headers;
}

/** Why a request cannot be forwarded, for any host; null when it can. */
export function unforwardable(
  incoming: IncomingMessage,
  via: string,
): { readonly status: number; readonly text: string } | null {
  const coding = incoming.headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    return { status: 501, text: 'only the transfer encoding chunked is forwarded' };
  }
  const passed = [incoming.headers.via ?? []].flat().some((value) => value.includes(via));
  return passed ? { status: 508, text: 'loop detected: the request came through this proxy before' } : null;
}

/** Serves the requests of a connection one after another, even if the client pipelines them. */
export class RequestQueue {
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

/** Sends a response unless one has been started or the client is gone. */
export function respond(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  omitKeepAliveHeader(response);
  const length = Buffer.byteLength(body);
  response.writeHead(status, { 'content-type': 'text/plain', ...headers, 'content-length': length });
  response.write(body);
  endResponse(response);
}

/** Removes the redundant `Connection: keep-alive` header. */
function omitKeepAliveHeader(response: ServerResponse): void {
  if (response.shouldKeepAlive) response.removeHeader('connection');
}

/** Sends a response on a bare socket and closes it. */
export function endWith(
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
