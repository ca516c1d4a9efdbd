import { BlockList, isIP } from 'node:net';
import type { Variables } from './header-fields.ts';

/**
 * The proxy that the environment names for a URL, or null. Names in capitals go before others, and one for the scheme before one for
 * all. In a CGI program `HTTP_PROXY` would be a header of whoever calls it, so it does not count there.
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

/** Addresses are compared with addresses and networks, names with names and their ends; `*` stands for every name. */
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
