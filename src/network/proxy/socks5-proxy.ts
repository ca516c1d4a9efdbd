import { createServer, type Server, type Socket } from 'node:net';
import type { LenientSocket } from '../failed-writes.ts';
import type { AccessRequest, Admission } from './admission.ts';
import type { Credentials } from './credentials.ts';
import { type Host, parseHost } from './host.ts';
import type { Interception } from './interception/interception.ts';
import { HANDSHAKE_TIMEOUT_MS, MAX_CONNECTIONS } from './limits.ts';
import { ADDRESS_NAME, ADDRESS_V4, ADDRESS_V6, encodeAddress, ipv6Text } from './socks5-address.ts';
import { abortOnClose, connectToOne, joinSockets } from './tunnel.ts';
import type { UdpAssociations } from './udp-associations.ts';

/** What the SOCKS5 listener of a proxy needs. */
interface Socks5ProxyContext {
  readonly admission: Admission;
  /** Required credentials; null where only the proxy's own program can connect. */
  readonly credentials: Credentials | null;
  /** Null without interception. */
  readonly interception: Interception | null;
  /** Null refuses UDP. */
  readonly udp: UdpAssociations | null;
  /** Aborted when the proxy closes. */
  readonly closing: AbortSignal;
}

/** Creates a server for SOCKS5 (RFC 1928): CONNECT, and UDP ASSOCIATE if enabled. It does not listen yet. */
export function createSocks5Proxy(context: Socks5ProxyContext): Server {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    socket.on('error', () => {});
    serve(context, socket).catch(() => socket.destroy());
  });
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}

/** Rejects on anything but SOCKS5, on a timeout of the handshake, and when the client disconnects. */
async function serve(context: Socks5ProxyContext, socket: Socket): Promise<void> {
  const timer = setTimeout(() => socket.destroy(), HANDSHAKE_TIMEOUT_MS);
  const reader = new HandshakeReader(socket);
  let request: Request | null;
  try {
    if (!(await authenticate(socket, reader, context.credentials))) return socket.destroySoon();
    request = await readRequest(reader);
  } finally {
    clearTimeout(timer);
    reader.release();
  }
  if (request === null) return refuse(socket, REPLY.generalFailure);
  if (request.command === COMMAND_CONNECT) return connectFor(context, socket, request);
  if (request.command === COMMAND_ASSOCIATE && context.udp !== null) return associateFor(context.udp, socket);
  refuse(socket, REPLY.commandNotSupported);
}

interface Request {
  readonly command: number;
  readonly host: Host;
  readonly port: number;
}

async function authenticate(
  socket: Socket,
  reader: HandshakeReader,
  credentials: Credentials | null,
): Promise<boolean> {
  const [version, count = 0] = await reader.bytes(2);
  if (version !== VERSION) throw new Error('not SOCKS5');
  const methods = await reader.bytes(count);
  const wanted = credentials === null ? METHOD_NONE : METHOD_PASSWORD;
  if (!methods.includes(wanted)) {
    socket.write(Buffer.from([VERSION, METHOD_UNACCEPTABLE]));
    return false;
  }
  socket.write(Buffer.from([VERSION, wanted]));
  if (credentials === null) return true;
  const [, userLength = 0] = await reader.bytes(2);
  const user = await reader.text(userLength);
  const [passwordLength = 0] = await reader.bytes(1);
  const isRight = credentials.match(user, await reader.text(passwordLength));
  socket.write(Buffer.from([PASSWORD_VERSION, isRight ? 0 : 1]));
  return isRight;
}

/** Null when the host is invalid. */
async function readRequest(reader: HandshakeReader): Promise<Request | null> {
  const [version, command = 0, , type = 0] = await reader.bytes(4);
  if (version !== VERSION) throw new Error('not SOCKS5');
  const host = parseHost(await readHost(reader, type));
  const port = (await reader.bytes(2)).readUInt16BE();
  // For UDP ASSOCIATE the client may leave its address unspecified.
  if (host === null || (port === 0 && command === COMMAND_CONNECT)) return null;
  return { command, host, port };
}

async function readHost(reader: HandshakeReader, type: number): Promise<string> {
  if (type === ADDRESS_V4) return [...(await reader.bytes(4))].join('.');
  if (type === ADDRESS_NAME) return reader.text((await reader.bytes(1))[0] ?? 0);
  if (type !== ADDRESS_V6) throw new Error('an address of an unknown type');
  return ipv6Text(await reader.bytes(16));
}

async function connectFor(
  context: Socks5ProxyContext,
  socket: Socket,
  { host, port }: Request,
): Promise<void> {
  const gone = abortOnClose(socket, context.closing);
  const client = `${socket.remoteAddress ?? ''}:${socket.remotePort ?? 0}`;
  const intercepted = context.interception?.intercepts({ host, port }) ?? false;
  const access: AccessRequest = { protocol: 'socks5_tcp', host, port, method: null, client, intercepted };
  const admitted = await context.admission.admit(access, gone);
  if (admitted.block !== undefined) return refuse(socket, REPLY.notAllowed);
  let upstream: LenientSocket;
  try {
    upstream = await connectToOne(admitted.addresses, port, gone);
  } catch {
    return refuse(socket, REPLY.connectionRefused);
  }
  socket.write(reply(REPLY.succeeded, upstream.localAddress ?? '0.0.0.0', upstream.localPort ?? 0));
  if (intercepted) await context.interception?.join(socket, upstream, access);
  else joinSockets(socket, upstream);
}

async function associateFor(udp: UdpAssociations, socket: Socket): Promise<void> {
  const port = await udp.open(socket);
  if (port === null) return refuse(socket, REPLY.generalFailure);
  socket.write(reply(REPLY.succeeded, '127.0.0.1', port));
  // The association ends with this connection, which carries no more data.
  socket.on('end', () => socket.end());
  socket.resume();
}

function refuse(socket: Socket, code: number): void {
  socket.write(reply(code, '0.0.0.0', 0));
  socket.destroySoon();
}

function reply(code: number, address: string, port: number): Buffer {
  return Buffer.concat([Buffer.from([VERSION, code, 0]), encodeAddress(address, port)]);
}

const VERSION = 5;
const PASSWORD_VERSION = 1;
const METHOD_NONE = 0;
const METHOD_PASSWORD = 2;
const METHOD_UNACCEPTABLE = 0xff;
const COMMAND_CONNECT = 1;
const COMMAND_ASSOCIATE = 3;
const REPLY = {
  succeeded: 0,
  generalFailure: 1,
  notAllowed: 2,
  connectionRefused: 5,
  commandNotSupported: 7,
} as const;

/** Reads a few bytes at a time from a socket and leaves the rest to the next reader. */
class HandshakeReader {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake = () => {};

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('close', this.#onEnd);
    socket.pause();
  }

  /** Reads exactly this many bytes. Rejects when the other side closes first. */
  async bytes(count: number): Promise<Buffer> {
    while (this.#received.length < count) {
      if (this.#ended) throw new Error('the client has disconnected');
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        this.#socket.resume();
      });
    }
    const bytes = this.#received.subarray(0, count);
    this.#received = this.#received.subarray(count);
    return bytes;
  }

  async text(length: number): Promise<string> {
    return (await this.bytes(length)).toString('latin1');
  }

  /** Returns what was read ahead to the socket, which stays paused. */
  release(): void {
    this.#socket.off('data', this.#onData);
    this.#socket.off('end', this.#onEnd);
    this.#socket.off('close', this.#onEnd);
    if (this.#received.length > 0) this.#socket.unshift(this.#received);
  }

  readonly #onData = (data: Buffer): void => {
    this.#socket.pause();
    this.#received = Buffer.concat([this.#received, data]);
    this.#wake();
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#wake();
  };
}
