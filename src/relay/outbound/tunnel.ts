import { request as requestPlain } from 'node:http';
import { type RequestOptions, request as requestSecure } from 'node:https';
import { isIP } from 'node:net';
import { unescape as unescapePercents } from 'node:querystring';
import type { Duplex } from 'node:stream';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { TlsOptions } from '../../transport/open-websocket.ts';
import { TUNNEL_TIMEOUT_MS } from '../limits.ts';
import { proxyFor } from './proxy.ts';

/** How connections to the outside are made. */
export interface OutboundOptions {
  readonly tls?: TlsOptions | undefined;
  /** Where HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY are looked up. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A connection through the proxy that the environment names, TLS included; undefined where none is needed. */
export async function openTunnel(
  target: URL,
  { env, tls }: OutboundOptions,
  signal: AbortSignal,
): Promise<Duplex | undefined> {
  const proxy = proxyFor(target, env);
  if (proxy === null) return undefined;
  const secure = target.protocol === 'https:' || target.protocol === 'wss:';
  const port = target.port || (secure ? '443' : '80');
  const limited = AbortSignal.any([signal, AbortSignal.timeout(TUNNEL_TIMEOUT_MS)]);
  const socket = await askProxy(proxy, `${target.hostname}:${port}`, limited);
  if (!secure) return socket;
  // Without the host a certificate would be held against the name of the proxy.
  return wrapTls({ socket, ...identityOf(target), ...(tls as object) }, limited);
}

function askProxy(proxy: URL, authority: string, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const options: RequestOptions = {
      method: 'CONNECT',
      // Without the name its certificate would be held against the host that is asked for.
      ...identityOf(proxy),
      port: proxy.port || (proxy.protocol === 'https:' ? 443 : 80),
      path: authority,
      headers: { host: authority, ...credentialsOf(proxy) },
      agent: false,
      signal,
    };
    const asked = (proxy.protocol === 'https:' ? requestSecure : requestPlain)(options);
    asked.once('connect', ({ statusCode = 0 }, socket, head) => {
      if (statusCode < 200 || statusCode > 299) {
        socket.destroy();
        reject(new Error(`the proxy ${proxy.host} answered with HTTP ${statusCode}`));
        return;
      }
      // Whoever uses it hears of errors from its end.
      socket.on('error', () => {});
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    asked.once('response', (response) => {
      response.destroy();
      reject(new Error(`the proxy ${proxy.host} answered with HTTP ${response.statusCode}`));
    });
    asked.once('error', (error) => reject(new Error(`the proxy ${proxy.host} failed: ${error.message}`)));
    asked.end();
  });
}

/** Whom a certificate must name. An address is none that TLS can ask for. */
function identityOf({ hostname }: URL): { readonly host: string; readonly servername: string } {
  const host = hostname.replace(/^\[|\]$/g, '');
  return { host, servername: isIP(host) === 0 ? host : '' };
}

/** A percent sign that escapes nothing stands for itself, as people write it. */
function credentialsOf({ username, password }: URL): Record<string, string> {
  if (username === '') return {};
  const text = `${unescapePercents(username)}:${unescapePercents(password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(text).toString('base64')}` };
}

function wrapTls(options: ConnectionOptions, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = connectTls(options);
    const abort = () => socket.destroy(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    socket.once('error', (error) => {
      options.socket?.destroy();
      reject(error);
    });
    socket.once('secureConnect', () => {
      signal.removeEventListener('abort', abort);
      resolve(socket);
    });
  });
}
