import { type Agent, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { isPublicAddress } from './addresses.ts';
import { endToEndHeaders, groupedHeaders, type HeaderGroups } from './http-message.ts';
import { IDLE_TIMEOUT_MS, LINGER_MS, MAX_HEADER_BYTES, MAX_REQUESTS_AHEAD } from './limits.ts';

/** What is asked of a web server, and on which connection. */
export interface Outgoing {
  /** A path with its query, or `*`. */
  readonly path: string;
  readonly headers: HeaderGroups;
  /** A connection for this request alone, or an agent that has one. */
  readonly connection: { readonly createConnection: () => Socket } | { readonly agent: Agent };
}

/**
 * Sends the request and brings the answer, also one that comes while the request is still being sent: what is left of it then is
 * read and dropped where the web server does not take it. Rejects when there is no answer; one that breaks off ends the client's
 * connection behind what came of it.
 */
export function exchange(incoming: IncomingMessage, response: ServerResponse, out: Outgoing): Promise<void> {
  return new Promise((resolve, reject) => {
    const outgoing = outgoingRequest(incoming, out);
    let isAnswered = false;
    outgoing.on('error', (error) => {
      // Later it is a failure of the answer, which tells it by itself.
      if (!isAnswered) reject(error);
    });
    outgoing.on('close', () => {
      incoming.unpipe(outgoing).resume();
      // A web server that switches protocols unasked ends like this, too.
      if (!isAnswered) reject(new Error('the web server has ended the connection'));
    });
    outgoing.on('response', (answered) => {
      if (!isForwardable(answered)) {
        outgoing.destroy(new Error('the web server does not speak HTTP'));
        return;
      }
      isAnswered = true;
      response.sendDate = false;
      // Two connections that belong together end together.
      if ('agent' in out.connection && !outgoing.shouldKeepAlive) response.shouldKeepAlive = false;
      keepSilently(response);
      lingerBehind(response);
      const headers = endToEndHeaders(answered.rawHeaders).flat();
      response.writeHead(answered.statusCode ?? 502, answered.statusMessage ?? '', headers);
      // The head goes out now, in its own bytes; flushing it would encode those beyond ASCII once more.
      response.write(NOTHING);
      answered.on('error', () => response.socket?.destroySoon());
      answered.pipe(response);
    });
    response.on('close', () => {
      outgoing.destroy();
      resolve();
    });
    incoming.on('error', () => {});
    incoming.pipe(outgoing);
  });
}

/** The last request of a connection that was answered before it was read to its end. */
const unread = new WeakMap<Socket, IncomingMessage>();

/**
 * Has the client's connection, where it ends with this answer, go on taking what the client still sends, for a while: a connection
 * that is closed with something unread is reset, and the reset overtakes the answer.
 */
function lingerBehind({ req: incoming }: ServerResponse): void {
  if (incoming.complete) return;
  const { socket } = incoming;
  const isPrepared = unread.has(socket);
  unread.set(socket, incoming);
  if (isPrepared) return;
  const destroySoon = socket.destroySoon.bind(socket);
  let isLingering = false;
  socket.destroySoon = () => {
    const rest = unread.get(socket) ?? incoming;
    if (rest.complete || socket.destroyed) return destroySoon();
    if (isLingering) return;
    isLingering = true;
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
    rest.once('end', destroySoon).resume();
    socket.end();
  };
}

const NOTHING = Buffer.alloc(0);

/** Whether the first line of an answer can be repeated. Any text is read as one, but what no server may say is not written. */
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
  // A request without a body stays one: nothing is added that announces it.
  outgoing.useChunkedEncodingByDefault = incoming.headers['transfer-encoding'] !== undefined;
  for (const [name, values] of headers.values()) outgoing.setHeader(name, values);
  outgoing.on('timeout', () => outgoing.destroy());
  return outgoing;
}

/** The headers of a request as they go on, to a web server at `address`. */
export function requestHeaders(
  incoming: IncomingMessage,
  hostHeader: string,
  address: string | undefined,
  via: string,
): HeaderGroups {
  const headers = groupedHeaders(endToEndHeaders(incoming.rawHeaders));
  // It was answered here; the web server would wait with its own answer for nothing.
  headers.delete('expect');
  if (!headers.has('host')) headers.set('host', ['Host', [hostHeader]]);
  if (incoming.headers['transfer-encoding'] !== undefined) {
    headers.set('transfer-encoding', ['Transfer-Encoding', ['chunked']]);
    // With both, the next one might find another end of the body.
    headers.delete('content-length');
  }
  // Only something near could send the request back here, and web servers elsewhere need not know of the proxy.
  if (!isPublicAddress(address ?? '')) {
    headers.set('via', ['Via', [...(headers.get('via')?.[1] ?? []), `1.1 ${via}`]]);
  }
  return headers;
}

/** Why a request cannot be passed on, whoever sends it to whom; null when it can. */
export function unforwardable(
  incoming: IncomingMessage,
  via: string,
): { readonly status: number; readonly text: string } | null {
  const coding = incoming.headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    return { status: 501, text: 'only the transfer encoding chunked is forwarded' };
  }
  const passed = [incoming.headers.via ?? []].flat().some((value) => value.includes(via));
  return passed ? { status: 508, text: 'the request came through this proxy before' } : null;
}

/** Serves the requests of a connection one after another, however many a client sends ahead. */
export class Turns {
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

/** Answers once: what comes after the head of another answer, or after the client, is dropped. */
export function answer(
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
  lingerBehind(response);
  const length = Buffer.byteLength(body);
  response.writeHead(status, { 'content-type': 'text/plain', ...headers, 'content-length': length });
  response.end(body);
}

/** A connection that goes on needs no header that says so. */
function keepSilently(response: ServerResponse): void {
  if (response.shouldKeepAlive) response.removeHeader('connection');
}

/** Answers on a bare socket and ends it. */
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
