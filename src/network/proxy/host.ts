import { isIP, isIPv6 } from 'node:net';
import { MAX_HOST_BYTES } from './limits.ts';

/** A host as a program names it. */
export interface Host {
  /** In lower case, without brackets and without the dot that ends a name. */
  readonly name: string;
  /** The address that the name spells in whatever way, in its usual spelling; null for what has to be resolved. */
  readonly address: string | null;
}

/** Reads a host. Null for what is none: characters that no name has, or too many of them. */
export function parseHost(text: string): Host | null {
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (isIPv6(bare))
    return bare.includes('%') ? null : { name: bare.toLowerCase(), address: canonical(`[${bare}]`) };
  const name = bare.toLowerCase().replace(/\.$/, '');
  if (bare !== text || name.length > MAX_HOST_BYTES || !NAME.test(name)) return null;
  return { name, address: NUMBER_LAST.test(name) ? canonical(name) : null };
}

/** Reads `host:port`; a missing port is `defaultPort`, or makes it no authority where there is none. */
export function parseAuthority(
  text: string,
  defaultPort: number | null,
): { readonly host: Host; readonly port: number } | null {
  const [, hostText = '', portText] = AUTHORITY.exec(text) ?? [];
  const host = parseHost(hostText);
  const port = portText === undefined ? defaultPort : Number(portText);
  if (host === null || port === null || port < 1 || port > 65_535) return null;
  return { host, port };
}

const AUTHORITY = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/;
const NAME = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;

/** Names that programs take for an IPv4 address in some spelling: 127.1, 0x7f.1, 2130706433. */
const NUMBER_LAST = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/;

/** The URL standard reads these spellings as the C library does. */
function canonical(host: string): string | null {
  try {
    const address = new URL(`http://${host}/`).hostname.replace(/^\[|\]$/g, '');
    return isIP(address) === 0 ? null : address;
  } catch {
    return null;
  }
}
