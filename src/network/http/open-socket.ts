import { lookup as resolve } from 'node:dns';
import { isIP, type LookupFunction, type Socket, type TcpSocketConnectOpts } from 'node:net';
import type { SecureContext, TLSSocket } from 'node:tls';
import { unlessAborted } from '../../base/abort.ts';
import { LenientSocket } from '../failed-writes.ts';
import { MAX_PROXY_HEAD_BYTES } from '../limits.ts';
import { connectSecurely } from '../tls-over-socket.ts';
import { anyAddress, type HostPolicy, requireAddress } from './host-policy.ts';
import { basicCredentials, portOf } from './request.ts';
import type { Route } from './route.ts';

/** Options of new connections. */
interface SocketSettings {
  readonly policy: HostPolicy;
  /** Called before each TLS connection is opened. */
  authorities(): Promise<SecureContext>;
  /** Protocols offered to servers over TLS, best first. */
  readonly protocols: readonly string[];
}

/** Opens a connection for requests. Destroys it when the signal aborts before it is open. */
export async function openSocket(
  route: Route,
  settings: SocketSettings,
  signal: AbortSignal,
): Promise<Socket | TLSSocket> {
  const { proxy, host } = route;
  const encrypts = route.secure || proxy?.protocol === 'https:';
  // Read before the socket exists: an error of a socket without listeners would end the process.
  const context = encrypts ? await unlessAborted(settings.authorities(), signal) : null;
  if (proxy === null) {
    const lookup = policyLookup(host, settings.policy);
    const socket = await connected({ host, port: route.port, lookup }, signal);
    return context === null ? socket : encrypted(socket, host, settings.protocols, context, signal);
  }
  await unlessAborted(requireTarget(route, settings.policy), signal);
  const proxyHost = proxy.hostname.replace(/^\[|\]$/g, '');
  let socket: LenientSocket | TLSSocket = await connected({ host: proxyHost, port: portOf(proxy) }, signal);
  if (context === null) return socket;
  if (proxy.protocol === 'https:') {
    socket = await encrypted(socket, proxyHost, ['http/1.1'], context, signal);
  }
  if (!route.secure) return socket;
  await openTunnel(socket, route.authority, proxy, signal);
  return encrypted(socket, host, settings.protocols, context, signal);
}

/** Waits for a socket to open; destroys it when that fails or the signal aborts. */
function opened<S extends Socket>(
  socket: S,
  event: 'connect' | 'secureConnect',
  signal: AbortSignal,
): Promise<S> {
  return new Promise((done, reject) => {
    const finish = (settle: () => void) => {
      signal.removeEventListener('abort', abort);
      socket.off('error', fail).off('close', close).off(event, ready);
      settle();
    };
    const fail = (error: Error) =>
      finish(() => {
        // Ignores later errors of a destroyed socket.
        socket.on('error', () => {}).destroy();
        reject(error);
      });
    const abort = () => fail(signal.reason as Error);
    const close = () => fail(new Error('the connection was closed while it was being opened'));
    const ready = () =>
      finish(() => {
        // The user of the socket sees its errors. This listener catches those between two uses and after an early response.
        socket.on('error', () => {});
        done(socket);
      });
    socket.on('error', fail).on('close', close).on(event, ready).setNoDelay(true);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
  });
}

function connected(options: TcpSocketConnectOpts, signal: AbortSignal): Promise<LenientSocket> {
  return opened(new LenientSocket({ allowHalfOpen: false }).connect(options), 'connect', signal);
}

/** Always verifies the certificate, whatever Node's own variables say. */
function encrypted(
  socket: LenientSocket | TLSSocket,
  host: string,
  protocols: readonly string[],
  secureContext: SecureContext,
  signal: AbortSignal,
): Promise<TLSSocket> {
  const names = isIP(host) === 0 ? { servername: host } : {};
  const checked = { secureContext, rejectUnauthorized: true };
  const tls = connectSecurely(socket, { host, ...names, ...checked, ALPNProtocols: [...protocols] });
  return opened(tls, 'secureConnect', signal);
}

/** A lookup that drops addresses which the policy forbids. When none is left it fails with the policy's error. */
function policyLookup(host: string, policy: HostPolicy): LookupFunction {
  return (name, options, callback) => {
    resolve(name, { ...options, all: true }, (error, addresses) => {
      if (error !== null) {
        callback(error, []);
        return;
      }
      let refusal: Error | null = null;
      const open = addresses.filter(({ address }) => {
        try {
          requireAddress(policy, host, address);
          return true;
        } catch (reason) {
          refusal = reason as Error;
          return false;
        }
      });
      const [one] = open;
      if (one === undefined) callback(refusal ?? new Error(`${name} has no address`), []);
      else if (options.all) callback(null, open);
      else callback(null, one.address, one.family);
    });
  };
}

/** A proxy resolves names itself. A name that resolves to a forbidden address here is refused; one that is unknown here is left to the proxy. */
async function requireTarget({ host }: Route, policy: HostPolicy): Promise<void> {
  if (anyAddress(policy) || isIP(host) !== 0) return;
  const addresses = await new Promise<readonly { address: string }[]>((done) => {
    resolve(host, { all: true }, (error, found) => done(error === null ? found : []));
  });
  for (const { address } of addresses) requireAddress(policy, host, address);
}

/** Asks a proxy for a connection to a server. No data may follow the proxy's response, because the server does not speak first. */
async function openTunnel(socket: Socket, authority: string, proxy: URL, signal: AbortSignal): Promise<void> {
  const credentials =
    proxy.username === '' && proxy.password === ''
      ? ''
      : `proxy-authorization: ${basicCredentials(proxy)}\r\n`;
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\n${credentials}\r\n`);
  const head = await proxyAnswer(socket, signal);
  const status = /^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1];
  if (status?.startsWith('2')) return;
  socket.destroy();
  throw new Error(`the proxy refused the connection${status === undefined ? '' : ` with status ${status}`}`);
}

function proxyAnswer(socket: Socket, signal: AbortSignal): Promise<string> {
  return new Promise((done, reject) => {
    let head = '';
    const finish = (settle: () => void) => {
      signal.removeEventListener('abort', abort);
      socket.off('data', read).off('error', fail).off('close', close).pause();
      settle();
    };
    const fail = (error: Error) =>
      finish(() => {
        socket.on('error', () => {}).destroy();
        reject(error);
      });
    const abort = () => fail(signal.reason as Error);
    const close = () => fail(new Error('the proxy closed the connection'));
    const read = (bytes: Buffer) => {
      head += bytes.toString('latin1');
      if (head.endsWith('\r\n\r\n')) finish(() => done(head));
      else if (head.length > MAX_PROXY_HEAD_BYTES || head.includes('\r\n\r\n'))
        fail(new Error('invalid response from the proxy'));
    };
    socket.on('data', read).on('error', fail).on('close', close);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
  });
}
