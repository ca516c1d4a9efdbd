import type { IncomingMessage } from 'node:http';
import { type Host, parseAuthority } from './host.ts';

/** The destination of a plain HTTP request. */
export interface HttpTarget {
  readonly host: Host;
  readonly port: number;
  /** The request target for the web server: a path with its query, or `*`. */
  readonly path: string;
  /** The `Host` header for the web server. */
  readonly hostHeader: string;
}

/**
 * Determines the destination of a request. The authority of its target decides. A `Host` header must be equal, so that the policy
 * is checked for the host that is reached. Returns an error text when the request cannot be served.
 */
export function httpTarget(request: IncomingMessage): HttpTarget | string {
  const given = hostHeaders(request);
  if (given.length > 1) return 'multiple Host headers';
  const header = given[0] === undefined ? null : parseAuthority(given[0], HTTP_PORT);
  if (given[0] !== undefined && header === null) return 'invalid Host header';
  const target = request.url ?? '';
  if (target.startsWith('/') || target === '*') {
    if (header === null) return 'missing host';
    return { ...header, path: target, hostHeader: given[0] ?? '' };
  }
  const [, scheme = '', authority = '', rest = ''] = ABSOLUTE.exec(target) ?? [];
  if (scheme.toLowerCase() !== 'http') return 'only http URLs are forwarded; use CONNECT for others';
  const named = parseAuthority(authority.replace(/^.*@/, ''), HTTP_PORT);
  if (named === null) return 'missing host';
  if (header !== null && !(header.host.name === named.host.name && header.port === named.port)) {
    return 'Host header does not match request target';
  }
  const path = rest.startsWith('/') ? rest : `/${rest}`;
  return { ...named, path, hostHeader: given[0] ?? authorityOf(named) };
}

function authorityOf({ host, port }: Pick<HttpTarget, 'host' | 'port'>): string {
  const name = host.name.includes(':') ? `[${host.name}]` : host.name;
  return port === HTTP_PORT ? name : `${name}:${port}`;
}

/** Every `Host` header of a request: the parsed headers contain only the first. */
export function hostHeaders({ rawHeaders }: IncomingMessage): string[] {
  const values: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() === 'host') values.push(rawHeaders[index + 1] ?? '');
  }
  return values;
}

const HTTP_PORT = 80;
const ABSOLUTE = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/?#]*)([^#]*)/;

/** Hop-by-hop headers. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** The end-to-end headers as pairs, without hop-by-hop headers and those that `Connection` lists. */
export function endToEndHeaders(rawHeaders: readonly string[]): [name: string, value: string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    pairs.push([rawHeaders[index] ?? '', rawHeaders[index + 1] ?? '']);
  }
  const listed = new Set(
    pairs
      .filter(([name]) => name.toLowerCase() === 'connection')
      .flatMap(([, value]) => value.split(',').map((name) => name.trim().toLowerCase())),
  );
  // Listing the length cannot remove it: without it the body would end somewhere else.
  listed.delete('content-length');
  return pairs.filter(([name]) => {
    const lower = name.toLowerCase();
    return !HOP_BY_HOP.has(lower) && !listed.has(lower);
  });
}

/** Headers by lower-case name, each with its original name and its values. */
export type HeaderGroups = Map<string, [name: string, values: string[]]>;

/** Groups headers by name; repeated ones become a list. */
export function groupedHeaders(pairs: readonly (readonly [string, string])[]): HeaderGroups {
  const groups: HeaderGroups = new Map();
  for (const [name, value] of pairs) {
    const group = groups.get(name.toLowerCase());
    if (group === undefined) groups.set(name.toLowerCase(), [name, [value]]);
    else group[1].push(value);
  }
  return groups;
}
