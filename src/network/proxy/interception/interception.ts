import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { LenientSocket } from '../../failed-writes.ts';
import { isLoopbackAddress } from '../addresses.ts';
import type { AccessRequest, Admission } from '../admission.ts';
import { blockedBody, blockedText } from '../blocked-response.ts';
import { type Host, parseAuthority } from '../host.ts';
import {
  afterRequest,
  endWith,
  exchange,
  type Outgoing,
  outgoingRequest,
  RequestQueue,
  requestHeaders,
  respond,
  unforwardable,
} from '../http-exchange.ts';
import { endToEndHeaders, type HeaderGroups, hostHeaders } from '../http-message.ts';
import { IDLE_TIMEOUT_MS, KEEP_ALIVE_MS, MAX_HEADER_BYTES, TLS_HANDSHAKE_MS } from '../limits.ts';
import type { CredentialMasks } from '../masking/credential-masks.ts';
import type { Scheme } from '../masking/destination.ts';
import { unmask } from '../masking/unmask.ts';
import { joinSockets } from '../tunnel.ts';
import { firstByte, InterceptedConnection, secureTo } from './connections.ts';
import type { InterceptionLease } from './interception-certificates.ts';

/** What the interception of one proxy needs. */
interface InterceptionContext {
  readonly admission: Admission;
  readonly masks: CredentialMasks;
  readonly lease: InterceptionLease;
  readonly mode: 'limited' | 'full';
  /** This server's name in `Via`. */
  readonly via: string;
}

/** The destination of a connection. */
interface Target {
  readonly host: Host;
  readonly port: number;
}

/**
 * Intercepts the connections of one program that lead to the destinations of its credentials, and no others. Speaks HTTP/1.1 with
 * both sides. To the program it presents the host's name with a certificate that the program trusts. The host must prove its
 * identity before anything is sent to it.
 */
export class Interception {
  readonly #context: InterceptionContext;
  readonly #server: Server;
  readonly #queue = new RequestQueue();
  readonly #connections = new WeakMap<object, InterceptedConnection>();

  constructor(context: InterceptionContext) {
    this.#context = context;
    this.#server = createServer({
      maxHeaderSize: MAX_HEADER_BYTES,
      // Overrides Node's command-line options.
      insecureHTTPParser: false,
      requestTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      requireHostHeader: false,
    });
    this.#server.maxHeadersCount = 0;
    this.#server.timeout = IDLE_TIMEOUT_MS;
    this.#server.on('request', (incoming, response) => {
      this.#queue.take(incoming.socket, () => this.#forward(incoming, response));
    });
    this.#server.on('upgrade', (incoming, socket, head) => {
      if (head.length > 0) socket.unshift(head);
      this.#queue.take(incoming.socket, () => this.#upgrade(incoming, incoming.socket));
    });
  }

  /** Whether connections to the target are intercepted. */
  intercepts(target: Target): boolean {
    return this.#speaks(target, 'https') || this.#speaks(target, 'http');
  }

  /** Connects a program with its host and intercepts what it sends. */
  async join(client: Socket, upstream: LenientSocket, access: AccessRequest): Promise<void> {
    const { remoteAddress } = upstream;
    const byte = await firstByte(client, upstream);
    if (client.destroyed || upstream.destroyed) {
      client.destroy();
      upstream.destroy();
    } else if (byte === TLS_HANDSHAKE && this.#speaks(access, 'https')) {
      const secured = secureTo(access.host, upstream, this.#context.lease.trust);
      this.#asHost(client, new InterceptedConnection(access, 'https', remoteAddress, secured));
    } else if (byte !== null && isUpperCase(byte) && this.#speaks(access, 'http')) {
      this.#serve(
        client,
        new InterceptedConnection(access, 'http', remoteAddress, Promise.resolve(upstream)),
      );
    } else if (this.#context.mode === 'full') {
      joinSockets(client, upstream);
    } else {
      client.destroy();
      upstream.destroy();
    }
  }

  /** Inserts credentials into a request to a web server on this machine. */
  unmaskPlain(
    headers: HeaderGroups,
    { host, port, path }: Target & { readonly path: string },
    method: string,
    upstream: Socket,
  ): void {
    // A local name may resolve to another machine.
    if (!isLoopbackAddress(upstream.remoteAddress ?? '')) return;
    const target = { scheme: 'http', host: nameOf(host), port, path: withoutQuery(path) } as const;
    unmask(this.#context.masks, headers, target, method);
  }

  #speaks({ host, port }: Target, scheme: Scheme): boolean {
    return this.#context.masks.all.some(({ destinations }) =>
      destinations.some((one) => one.scheme === scheme && one.isAt(nameOf(host), port)),
    );
  }

  #asHost(client: Socket, connection: InterceptedConnection): void {
    const secured = new TLSSocket(client, {
      isServer: true,
      secureContext: this.#context.lease.authority.contextFor(nameOf(connection.access.host)),
      ALPNProtocols: ['http/1.1'],
    });
    const timer = setTimeout(() => {
      // Without a Finished message of the program the handshake is not complete.
      if (secured.getPeerFinished() === undefined) secured.destroy();
    }, TLS_HANDSHAKE_MS);
    secured.once('close', () => clearTimeout(timer));
    secured.on('error', () => {});
    this.#serve(secured, connection);
  }

  #serve(client: Socket, connection: InterceptedConnection): void {
    this.#connections.set(client, connection);
    client.once('close', () => connection.end());
    connection.onIdleEnd(() => client.destroySoon());
    this.#server.emit('connection', client);
  }

  async #forward(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const connection = this.#connections.get(incoming.socket)!;
    const done = connection.begin();
    try {
      if (this.#refuse(incoming, response, connection)) return;
      await exchange(incoming, response, await this.#outgoing(incoming, connection));
    } catch (error) {
      respond(response, 502, failureText(error));
    } finally {
      // The end of the host's connection closes that of the client. With unread data the client would be reset.
      afterRequest(incoming, done);
    }
  }

  /** Responds to a request that must not be forwarded. Returns whether it did. */
  #refuse(incoming: IncomingMessage, response: ServerResponse, connection: InterceptedConnection): boolean {
    const refusal = this.#refusal(incoming, connection);
    if (refusal !== null) {
      respond(response, refusal.status, refusal.text);
      return true;
    }
    const access: AccessRequest = { ...connection.access, method: incoming.method ?? 'GET' };
    const block = this.#context.admission.admitInside(access);
    if (block === null) return false;
    const headers = { 'content-type': 'application/json', 'x-proxy-error': blockedText(block).proxyError };
    respond(response, 403, blockedBody(access, block), headers);
    return true;
  }

  /** After an upgrade the data is passed through. In limited mode upgrades are forbidden, because methods could not be checked. */
  async #upgrade(incoming: IncomingMessage, client: Socket): Promise<void> {
    client.on('error', () => {});
    const connection = this.#connections.get(client)!;
    const refusal = this.#refusal(incoming, connection);
    if (refusal !== null) return endWith(client, refusal.status, 'Refused', [], refusal.text);
    if (this.#context.mode !== 'full')
      return endWith(client, 403, 'Forbidden', [], 'upgrades are not allowed');
    const done = connection.begin();
    let out: Outgoing;
    try {
      out = await this.#outgoing(incoming, connection);
    } catch (error) {
      done();
      return endWith(client, 502, 'Bad Gateway', [], failureText(error));
    }
    out.headers.set('connection', ['Connection', ['Upgrade']]);
    out.headers.set('upgrade', ['Upgrade', [incoming.headers.upgrade ?? '']]);
    const outgoing = outgoingRequest(incoming, out);
    let isAnswered = false;
    outgoing.on('error', () => {
      if (isAnswered) client.destroy();
      else endWith(client, 502, 'Bad Gateway', [], 'upstream failure');
    });
    outgoing.on('upgrade', (answered, upstream, head) => {
      isAnswered = true;
      client.write(headOf(answered, [`Connection: Upgrade`, `Upgrade: ${answered.headers.upgrade ?? ''}`]));
      if (head.length > 0) upstream.unshift(head);
      joinSockets(client, upstream as Socket);
    });
    outgoing.on('response', (answered) => {
      isAnswered = true;
      client.write(headOf(answered, ['Connection: close']));
      answered.pipe(client);
      answered.on('error', () => client.destroy());
    });
    client.once('close', () => outgoing.destroy());
    outgoing.end();
  }

  /** The request to the host, with credentials where allowed. Rejects when the host's certificate is not trusted. */
  async #outgoing(incoming: IncomingMessage, connection: InterceptedConnection): Promise<Outgoing> {
    const { access, scheme } = connection;
    const agent = await connection.agent;
    const { via, masks } = this.#context;
    const path = incoming.url ?? '/';
    const authority = authorityOf(access, scheme);
    const headers = requestHeaders(incoming, authority, connection.address, via);
    // Sends the spelling that was checked. For another one, such as with a trailing dot, a web server may select another site.
    headers.set('host', ['Host', [authority]]);
    const isSafe = scheme === 'https' || isLoopbackAddress(connection.address ?? '');
    const target = { scheme, host: nameOf(access.host), port: access.port, path: withoutQuery(path) };
    if (isSafe) unmask(masks, headers, target, incoming.method ?? 'GET');
    return { path, headers, connection: { agent } };
  }

  /** Refuses a request for another host than that of its connection. */
  #refusal(
    incoming: IncomingMessage,
    { access, scheme }: InterceptedConnection,
  ): ReturnType<typeof unforwardable> {
    const given = hostHeaders(incoming).map((text) => parseAuthority(text, DEFAULT_PORTS[scheme]));
    const isOther = given.some(
      (authority) =>
        authority === null || authority.host.name !== access.host.name || authority.port !== access.port,
    );
    if (given.length > 1 || isOther) return { status: 400, text: 'host mismatch' };
    if (!/^(?:\/|\*$)/.test(incoming.url ?? '')) return { status: 400, text: 'a path was expected' };
    return unforwardable(incoming, this.#context.via);
  }
}

/** The first byte of a TLS handshake. */
const TLS_HANDSHAKE = 0x16;
const DEFAULT_PORTS: Readonly<Record<Scheme, number>> = { http: 80, https: 443 };

/** HTTP methods are in upper case. */
function isUpperCase(byte: number): boolean {
  return byte >= 0x41 && byte <= 0x5a;
}

/** The canonical address, or the name. */
function nameOf({ name, address }: Host): string {
  return address ?? name;
}

/** Keeps a `#`, which some web servers treat as part of the path. */
function withoutQuery(path: string): string {
  return path.replace(/\?.*$/s, '');
}

function authorityOf({ host, port }: Target, scheme: Scheme): string {
  const name = nameOf(host).includes(':') ? `[${nameOf(host)}]` : nameOf(host);
  return port === DEFAULT_PORTS[scheme] ? name : `${name}:${port}`;
}

function failureText(error: unknown): string {
  const { code = '' } = error as NodeJS.ErrnoException;
  const isDoubt = /CERT|ISSUER|SIGNATURE|SELF_SIGNED|CRL|ALTNAME/.test(code);
  return isDoubt ? `the certificate of the web server cannot be trusted: ${code}` : 'upstream failure';
}

function headOf({ statusCode, statusMessage, rawHeaders }: IncomingMessage, more: readonly string[]): Buffer {
  const lines = endToEndHeaders(rawHeaders).map(([name, value]) => `${name}: ${value}`);
  const head = [`HTTP/1.1 ${statusCode} ${statusMessage}`, ...lines, ...more, '', ''].join('\r\n');
  // Each character stands for one byte.
  return Buffer.from(head, 'latin1');
}
