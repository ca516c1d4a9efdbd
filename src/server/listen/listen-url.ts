import { isIPv4, isIPv6 } from 'node:net';
import { DEFAULT_CONFIG } from '../config/config.ts';

/** Where a server listens when nobody says otherwise: loopback, on a port the system picks. */
export const DEFAULT_LISTEN_URL = DEFAULT_CONFIG.listen;

/** A parsed listen URL. `host` is a bare IP address, without the brackets of IPv6. */
export type ListenAddress =
  | SocketAddress
  | UnixAddress
  | { readonly kind: 'stdio' }
  | { readonly kind: 'off' };

/** A websocket on a network interface, behind TLS when `secure`. */
export interface SocketAddress {
  readonly kind: 'websocket';
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
}

/** A websocket on a socket in the file system, which only this machine reaches. */
export interface UnixAddress {
  readonly kind: 'unix';
  readonly path: string;
}

/** Why a listen URL was refused: a scheme that is not served, or one that is and is not written as it should be. */
export class ListenUrlError extends Error {
  override readonly name = 'ListenUrlError';
  readonly kind: 'unsupported' | 'invalid';

  constructor(kind: 'unsupported' | 'invalid', text: string, expected: string) {
    const what = kind === 'unsupported' ? 'unsupported' : 'invalid websocket';
    super(`${what} --listen URL \`${text}\`; expected ${expected}`);
    this.kind = kind;
  }
}

/**
 * Reads `ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH`, `stdio`, `stdio://` or `off`; throws ListenUrlError for anything else.
 * Host names are refused: what one resolves to can change, and a server must know which interface it opens.
 */
export function parseListenUrl(text: string): ListenAddress {
  if (text === 'stdio' || text === 'stdio://') return { kind: 'stdio' };
  if (text === 'off') return { kind: 'off' };
  const scheme = SCHEMES.find((candidate) => text.startsWith(candidate));
  if (scheme === undefined) throw new ListenUrlError('unsupported', text, EVERY_FORM);
  const rest = text.slice(scheme.length);
  return scheme === 'unix://' ? parseUnixPath(text, rest) : parseHostAndPort(text, rest, scheme === 'wss://');
}

/** Whether only this machine reaches an IP address. */
export function isLoopback(host: string): boolean {
  const address = host.replace(/^::ffff:(?=[\d.]+$)/i, '');
  return isIPv4(address) ? address.startsWith('127.') : LOOPBACK_V6.test(address);
}

const LOOPBACK_V6 = /^(?:0{0,4}:){2,7}0{0,3}1$/;
const SCHEMES = ['ws://', 'wss://', 'unix://'] as const;
const EVERY_FORM = '`ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH` or `stdio`';
const HOST_AND_PORT = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/;
const MAX_PORT = 65_535;

function parseHostAndPort(text: string, rest: string, secure: boolean): SocketAddress {
  const match = HOST_AND_PORT.exec(rest);
  const [, v6, v4, port] = match ?? [];
  const host = v6 ?? v4 ?? '';
  const isAddress = v6 === undefined ? isIPv4(host) : isIPv6(host);
  if (!isAddress || Number(port) > MAX_PORT) {
    throw new ListenUrlError('invalid', text, `\`${secure ? 'wss' : 'ws'}://IP:PORT\``);
  }
  return { kind: 'websocket', secure, host, port: Number(port) };
}

/** The path is taken as it is written: nothing in it is an escape. */
function parseUnixPath(text: string, path: string): UnixAddress {
  // A NUL would name a socket outside the file system, where permissions do not exist.
  if (!path.startsWith('/') || path.endsWith('/') || path.includes('\0')) {
    throw new ListenUrlError('invalid', text, '`unix:///PATH`');
  }
  return { kind: 'unix', path };
}
