import { request as requestPlain } from 'node:http';
import { type RequestOptions, request as requestSecure } from 'node:https';
import { isIP } from 'node:net';
import { unescape as unescapePercents } from 'node:querystring';
import type { Duplex } from 'node:stream';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { TimeLimit } from '../../base/time-limit.ts';
import type { TlsOptions } from '../../transport/tls-options.ts';
import { TUNNEL_TIMEOUT_MS } from '../limits.ts';

type Variables = Readonly<Record<string, string | undefined>>;

/** How to open outbound connections. */
export interface OutboundOptions {
  readonly tls?: TlsOptions | undefined;
  /** Environment variables with HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. */
  readonly env: Variables;
}

/** Opens a connection through the configured proxy, including TLS to the target. Returns undefined when no proxy applies. */
export async function openTunnel(
  target: URL,
  { env, tls }: OutboundOptions,
  signal: AbortSignal,
): Promise<Duplex | undefined> {
  const proxy = proxyFor(target, env);
  if (proxy === null) return undefined;
  const secure = target.protocol === 'https:' || target.protocol === 'wss:';
  const port = target.port || (secure ? '443' : '80');
  return TimeLimit.run(TUNNEL_TIMEOUT_MS, signal, async (limited) => {
    const socket = await askProxy(proxy, `${target.hostname}:${port}`, limited);
    if (!secure) return socket;
    // TLS would otherwise check the certificate against the proxy's name.
    return wrapTls({ socket, ...identityOf(target), ...(tls as object) }, limited);
  });
}

function askProxy(proxy: URL, authority: string, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const options: RequestOptions = {
      method: 'CONNECT',
      // TLS would otherwise check the proxy's certificate against the target host.
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
      // The user of the socket notices an error by its close event.
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

/** The name that the certificate must have. TLS cannot send an IP address as server name. */
function identityOf({ hostname }: URL): { readonly host: string; readonly servername: string } {
  const host = hostname.replace(/^\[|\]$/g, '');
  return { host, servername: isIP(host) === 0 ? host : '' };
}

/** Decodes percent escapes. Keeps a percent sign that escapes nothing, because people write passwords unescaped. */
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

/**
 * Returns the proxy that the environment variables set for a URL, or null. Loopback addresses never use a proxy: behind the proxy they
 * mean another machine.
 */
export function proxyFor(url: URL, env: Variables): URL | null {
  const secure = url.protocol === 'https:' || url.protocol === 'wss:';
  const port = url.port || (secure ? '443' : '80');
  if (isLoopbackHost(url.hostname) || isExempt(url.hostname, port, variable(env, 'no_proxy'))) return null;
  const text = variable(env, secure ? 'https_proxy' : 'http_proxy') || variable(env, 'all_proxy');
  if (text === '') return null;
  // Accepts HOST:PORT without a scheme.
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  const proxy = URL.canParse(address) ? new URL(address) : null;
  if (proxy === null || (proxy.protocol !== 'http:' && proxy.protocol !== 'https:')) {
    throw new TypeError('the proxy variable of the environment is not an http:// or https:// URL');
  }
  return proxy;
}

function isExempt(hostname: string, port: string, list: string): boolean {
  const host = hostname.toLowerCase().replace(/^\[|\]$/g, '');
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .some((entry) => entry === '*' || matches(entry, host, port));
}

/** A name matches itself and its subdomains, with or without a leading dot or `*.`. A port restricts the match. */
function matches(entry: string, host: string, port: string): boolean {
  const [, name = entry, wantedPort] = /^(.*[^:]):(\d+)$/.exec(entry) ?? [];
  if (wantedPort !== undefined && wantedPort !== port) return false;
  const bare = name.replace(/^\*?\./, '').replace(/^\[|\]$/g, '');
  return host === bare || host.endsWith(`.${bare}`);
}

function variable(env: Variables, name: string): string {
  return (env[name] ?? env[name.toUpperCase()] ?? '').trim();
}

/** Whether a URL's host is this machine: `localhost` or a loopback address, without a DNS lookup. */
export function isLoopbackHost(hostname: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(hostname);
}
