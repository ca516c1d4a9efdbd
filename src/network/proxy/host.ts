import { isIP, isIPv6 } from 'node:net';
import { MAX_HOST_BYTES } from './limits.ts';

/** A host as a program names it. */
export interface Host {
  /** In lower case, without brackets and without a trailing dot. */
  readonly name: string;
  /** The canonical address if the name is an address in any spelling; null when it must be resolved. */
  readonly address: string | null;
}

/** Parses a host. Null when it is too long or contains invalid characters. */
export function parseHost(text: string): Host | null {
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (isIPv6(bare))
    return bare.includes('%') ? null : { name: bare.toLowerCase(), address: canonical(`[${bare}]`) };
  const name = bare.toLowerCase().replace(/\.$/, '');
  if (bare !== text || name.length > MAX_HOST_BYTES || !NAME.test(name)) return null;
  return { name, address: NUMBER_LAST.test(name) ? canonical(name) : null };
}

/** Parses `host:port`. A missing port is `defaultPort`; without a default it is an error, and the result null. */
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

/** Names that programs accept as an IPv4 address: 127.1, 0x7f.1, 2130706433. */
const NUMBER_LAST = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/;

/** The URL standard parses these spellings as the C library does. */
function canonical(host: string): string | null {
  try {
    const address = new URL(`http://${host}/`).hostname.replace(/^\[|\]$/g, '');
    return isIP(address) === 0 ? null : address;
  } catch {
    return null;
  }
}
