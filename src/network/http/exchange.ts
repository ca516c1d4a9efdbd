import { type ClientRequest, type IncomingMessage, request as send } from 'node:http';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { ReliableAgent, watchForReset } from '../failed-writes.ts';
import { BODY_PIECE_BYTES, MAX_IDLE_CONNECTIONS, MAX_RESPONSE_HEAD_BYTES } from '../limits.ts';
import { type HeaderField, responseFields } from './header-fields.ts';
import type { Hop } from './request.ts';

/** The head of a response and its body stream. */
export interface RawResponse {
  readonly status: number;
  readonly fields: readonly HeaderField[];
  readonly body: Readable;
  /**
   * Whether an ended body is complete. An HTTP/2 stream ends without an error when the server cancels it, and so does an HTTP/1.1 body
   * without a length when the connection is reset.
   */
  isWhole(): boolean;
}

/** A hop as it is sent on a connection. */
export interface Outgoing {
  readonly hop: Hop;
  readonly fields: readonly HeaderField[];
  /** The target in the request line. */
  readonly target: string;
}

interface ConnectionOptions {
  readonly key: string;
  readonly take: () => Socket | null;
}

/** The connections of one client, idle and in use. Callers open new ones and hand them over. */
export class Connections extends ReliableAgent {
  constructor(idleMs: number) {
    super({ keepAlive: true, timeout: idleMs, maxFreeSockets: MAX_IDLE_CONNECTIONS });
  }

  /** Whether a request would find an idle connection. */
  hasIdle(key: string): boolean {
    return this.freeSockets[key]?.some(isUsable) ?? false;
  }

  /** Closes the idle connections of a route, which may all be stale. */
  dropIdle(key: string): void {
    for (const socket of this.freeSockets[key] ?? []) socket.destroy();
  }

  override getName(options?: object): string {
    return (options as ConnectionOptions).key;
  }

  override createConnection(options: object): Socket {
    const socket = (options as ConnectionOptions).take();
    if (socket === null) throw new StaleConnectionError('an idle connection was gone', { seen: false });
    return socket;
  }
}

/** A kept connection was closed when it was needed. `seen` is false when the server certainly has not processed the request. */
export class StaleConnectionError extends Error {
  override readonly name = 'StaleConnectionError';
  readonly seen: boolean;

  constructor(message: string, { seen }: { readonly seen: boolean }) {
    super(message);
    this.seen = seen;
  }
}

/**
 * Sends a hop over HTTP/1.1, on `socket` or on an idle connection. Sends the headers unchanged and in order, and removes those that
 * Node adds. Rejects with the connection's error.
 */
export function exchangeOverHttp1(
  connections: Connections,
  key: string,
  socket: Socket | null,
  { hop, fields, target }: Outgoing,
  signal: AbortSignal,
): Promise<RawResponse> {
  return new Promise((resolve, reject) => {
    let unused = socket;
    const take = () => {
      const taken = unused;
      unused = null;
      return taken;
    };
    const options = { key, take, agent: connections, path: target, setHost: false };
    const request = send({ ...options, method: hop.method, maxHeaderSize: MAX_RESPONSE_HEAD_BYTES });
    // The size of the head is limited in bytes. A limit on the number of headers would drop the rest silently.
    request.maxHeadersCount = 0;
    // The request has used an idle connection that became available in the meantime.
    unused?.destroy();
    const abort = () => request.destroy(signal.reason as Error);
    const answered = (answer: IncomingMessage) => {
      signal.removeEventListener('abort', abort);
      // The server need not read the rest of a request that it has answered, and would otherwise hold the connection open.
      answer.once('close', () => {
        if (!request.writableFinished) request.destroy();
      });
      const wasReset = watchForReset(request, answer);
      resolve({ ...rawResponse(answer), isWhole: () => answer.complete && !wasReset() });
    };
    request.on('response', answered);
    for (const event of ['upgrade', 'connect'] as const) {
      request.on(event, (answer, upgraded) => {
        upgraded.destroy();
        signal.removeEventListener('abort', abort);
        resolve({ ...rawResponse(answer), body: Readable.from([]) });
      });
    }
    // After the response head an error belongs to the body.
    request.on('error', (error) => {
      signal.removeEventListener('abort', abort);
      reject(isReset(request, error) ? new StaleConnectionError(error.message, { seen: true }) : error);
    });
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    else write(request, hop, fields);
  });
}

/** Sends a hop over HTTP/2, which has no request line and no connection headers. */
export function exchangeOverHttp2(
  session: ClientHttp2Session,
  { hop, fields }: Outgoing,
  signal: AbortSignal,
): Promise<RawResponse> {
  return new Promise((resolve, reject) => {
    const { url, body } = hop;
    if (session.closed || session.destroyed) {
      reject(new StaleConnectionError('the connection is being closed', { seen: false }));
      return;
    }
    const stream = session.request(
      {
        ':method': hop.method,
        ':scheme': 'https',
        ':authority': fields.find(({ name }) => name === 'host')?.value ?? url.host,
        ':path': `${url.pathname}${url.search}`,
        ...http2Headers(fields),
      },
      { endStream: body === null },
    );
    const abort = () => stream.destroy(signal.reason as Error);
    const fail = (error: Error) => {
      signal.removeEventListener('abort', abort);
      const refused = stream.rstCode === constants.NGHTTP2_REFUSED_STREAM;
      reject(refused ? new StaleConnectionError(error.message, { seen: false }) : error);
    };
    stream.once(
      'response',
      (headers: IncomingHttpHeaders & { ':status'?: number }, _flags: number, raw: string[]) => {
        signal.removeEventListener('abort', abort);
        stream.off('error', fail);
        const pairs = raw.filter((_, at) => !raw[at - (at % 2)]?.startsWith(':'));
        resolve({ status: headers[':status'] ?? 0, fields: responseFields(pairs), ...bodyOf(stream) });
      },
    );
    stream.on('error', fail);
    stream.once('close', () => fail(new Error('the stream was closed without a response')));
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    else if (body !== null) stream.end(body);
  });
}

/**
 * The body of an HTTP/2 response. A reader of the HTTP/2 stream itself would fail if the stream is closed before it starts to read:
 * Node then takes the stream for one that was cut off, even if the whole body has arrived.
 */
function bodyOf(stream: ClientHttp2Stream): Pick<RawResponse, 'body' | 'isWhole'> {
  let isWhole = false;
  const body = new Readable({
    read: () => stream.resume(),
    destroy: (error, done) => {
      stream.destroy(error ?? undefined);
      done(error);
    },
  });
  // The reader gets the error. Without a reader it would be unhandled.
  body.on('error', () => {});
  stream.on('error', (error) => body.destroy(error));
  stream.on('data', (data) => {
    if (!body.push(data)) stream.pause();
  });
  stream.once('end', () => {
    isWhole = stream.rstCode === constants.NGHTTP2_NO_ERROR;
    body.push(null);
  });
  stream.once('close', () => {
    if (!stream.readableEnded) body.push(null);
  });
  return { body, isWhole: () => isWhole };
}

function rawResponse(answer: IncomingMessage): RawResponse {
  const { statusCode: status = 0, rawHeaders } = answer;
  return { status, fields: responseFields(rawHeaders), body: answer, isWhole: () => true };
}

function write(request: ClientRequest, { method, body }: Hop, fields: readonly HeaderField[]): void {
  for (const name of ['connection', 'content-length', 'transfer-encoding']) request.removeHeader(name);
  // The constructor converts it to upper case.
  request.method = method;
  if (fields.some(({ name, value }) => name === 'connection' && /\bclose\b/i.test(value))) {
    request.shouldKeepAlive = false;
  }
  for (const [name, all] of valuesByName(fields)) request.setHeader(name, all.length === 1 ? all[0]! : all);
  if (body === null) request.end();
  else Readable.from(piecesOf(body)).pipe(request);
}

function* piecesOf(body: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < body.length; at += BODY_PIECE_BYTES) yield body.subarray(at, at + BODY_PIECE_BYTES);
}

/** Node writes one byte per character of a header; these bytes are UTF-8. */
function asBytes(value: string): string {
  return Buffer.from(value, 'utf8').toString('latin1');
}

function isReset(request: ClientRequest, error: NodeJS.ErrnoException): boolean {
  return request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}

function isUsable(socket: Socket): boolean {
  return !socket.destroyed && socket.writable;
}

/** Connection-specific headers, which HTTP/2 forbids. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
]);

function http2Headers(fields: readonly HeaderField[]): Record<string, string[]> {
  const sent = fields.filter(
    ({ name, value }) => !CONNECTION_HEADERS.has(name) && (name !== 'te' || value === 'trailers'),
  );
  return Object.fromEntries(valuesByName(sent));
}

function valuesByName(fields: readonly HeaderField[]): Map<string, string[]> {
  const values = new Map<string, string[]>();
  for (const { name, value } of fields) {
    const same = values.get(name);
    if (same === undefined) values.set(name, [asBytes(value)]);
    else same.push(asBytes(value));
  }
  return values;
}
