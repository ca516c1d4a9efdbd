import { BlockList, isIP } from 'node:net';
import { NetworkError } from '../errors.ts';
import type { Variables } from './header-fields.ts';
import { bareHost } from './host-policy.ts';
import { authorityOf, portOf } from './request.ts';

/** How a web server is reached. Requests with equal keys can share connections. */
export interface Route {
  readonly key: string;
  readonly host: string;
  readonly port: number;
  /** Whether the connection to the server uses TLS. */
  readonly secure: boolean;
  /** `host:port`, with brackets around an IPv6 address. */
  readonly authority: string;
  readonly proxy: URL | null;
}

/** The route to the server of a URL. Throws NetworkError when the environment names an unusable proxy. */
export function routeTo(url: URL, env: Variables): Route {
  const secure = url.protocol === 'https:';
  const named = proxyFor(url, env);
  const proxy = named === null ? null : proxyUrl(named);
  const target = { host: bareHost(url), port: portOf(url), secure, authority: authorityOf(url), proxy };
  // Without TLS a proxy accepts requests for all servers on one connection.
  const end = proxy !== null && !secure ? '' : target.authority;
  return { ...target, key: `${url.protocol} ${end} ${proxy?.href ?? ''}` };
}

/** The scheme of a proxy URL may be missing. */
function proxyUrl(text: string): URL {
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  if (URL.canParse(whole)) {
    const url = new URL(whole);
    if (url.protocol === 'http:' || url.protocol === 'https:') return url;
  }
  throw new NetworkError(
    'failed',
    'http/request failed: the proxy of the environment is not an http or https URL',
  );
}

/**
 * The proxy that the environment names for a URL, or null. Upper-case names take precedence, and the scheme's variable over
 * ALL_PROXY. In a CGI program `HTTP_PROXY` could come from a request header, so it is ignored there (https://httpoxy.org).
 */
export function proxyFor(url: URL, env: Variables): string | null {
  const secure = url.protocol === 'https:';
  const own = secure ? first(env, 'HTTPS_PROXY') : env.REQUEST_METHOD ? null : first(env, 'HTTP_PROXY');
  const proxy = own ?? first(env, 'ALL_PROXY');
  return proxy === null || isExempt(url.hostname, first(env, 'NO_PROXY')) ? null : proxy;
}

function first(env: Variables, name: string): string | null {
  return env[name] || env[name.toLowerCase()] || null;
}

/** Compares addresses with addresses and networks, and names with names and domain suffixes; `*` matches every name. */
function isExempt(hostname: string, list: string | null): boolean {
  if (list === null) return false;
  const host = hostname.replace(/^\[|\]$/g, '').toLowerCase();
  const entries = list.split(',').map((entry) => entry.trim().toLowerCase());
  return entries.some((entry) => {
    if (entry === '') return false;
    if (isIP(host) !== 0) return addressMatches(host, entry);
    const domain = entry.replace(/^\./, '');
    return entry === '*' || host === domain || host.endsWith(`.${domain}`);
  });
}

function addressMatches(host: string, entry: string): boolean {
  const [network = '', bits] = entry.split('/');
  const family = isIP(network);
  if (family === 0 || family !== isIP(host)) return false;
  const type = family === 4 ? 'ipv4' : 'ipv6';
  const longest = family === 4 ? 32 : 128;
  const prefix = bits === undefined ? longest : Number(bits);
  if (!Number.isInteger(prefix) || prefix < 0 || prefix > longest) return false;
  const list = new BlockList();
  list.addSubnet(network, prefix, type);
  return list.check(host, type);
}
