import { isIPv4, isIPv6 } from 'node:net';
import { StartError } from './start-error.ts';

/** A parsed listen URL. `host` is a bare IP address, without the brackets of IPv6. */
export type ListenAddress =
  | SocketAddress
  | UnixAddress
  | { readonly kind: 'stdio' }
  | { readonly kind: 'off' };

/** A websocket listener on a network interface, with TLS when `secure`. */
export interface SocketAddress {
  readonly kind: 'websocket';
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
}

/** A websocket listener on a Unix socket, which only this machine can reach. */
export interface UnixAddress {
  readonly kind: 'unix';
  readonly path: string;
}

/** A listen URL with an unsupported scheme, or an invalid one with a supported scheme. */
export class ListenUrlError extends StartError {
  override readonly name = 'ListenUrlError';
  readonly kind: 'unsupported' | 'invalid';

  constructor(kind: 'unsupported' | 'invalid', text: string, expected: string) {
    const what = kind === 'unsupported' ? 'unsupported' : 'invalid websocket';
    super(`${what} --listen URL \`${text}\`; expected ${expected}`);
    this.kind = kind;
  }
}

/**
 * Parses `ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH`, `stdio`, `stdio://` or `off`; throws ListenUrlError for anything else.
 * `localhost` is 127.0.0.1. Refuses other host names: their address can change, and a server must know which interface it opens.
 */
export function parseListenUrl(text: string): ListenAddress {
  if (text === 'stdio' || text === 'stdio://') return { kind: 'stdio' };
  if (text === 'off') return { kind: 'off' };
  const scheme = SCHEMES.find((candidate) => text.startsWith(candidate));
  if (scheme === undefined) throw new ListenUrlError('unsupported', text, SUPPORTED_FORMS);
  const rest = text.slice(scheme.length);
  return scheme === 'unix://' ? parseUnixPath(text, rest) : parseHostAndPort(text, rest, scheme === 'wss://');
}

/** Writes an IP address as the host of a URL: IPv6 in brackets. */
export function hostInUrl(ip: string): string {
  return ip.includes(':') ? `[${ip}]` : ip;
}

/** Whether an IP address is loopback, so that only this machine can reach it. */
export function isLoopback(host: string): boolean {
  const address = host.replace(/^::ffff:(?=[\d.]+$)/i, '');
  return isIPv4(address) ? address.startsWith('127.') : LOOPBACK_V6.test(address);
}

const LOOPBACK_V6 = /^(?:0{0,4}:){2,7}0{0,3}1$/;
const SCHEMES = ['ws://', 'wss://', 'unix://'] as const;
const SUPPORTED_FORMS = '`ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH` or `stdio`';
const HOST_AND_PORT = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/;
const MAX_PORT = 65_535;

function parseHostAndPort(text: string, rest: string, secure: boolean): SocketAddress {
  const match = HOST_AND_PORT.exec(rest);
  const [, v6, v4, port] = match ?? [];
  const host = v6 ?? (v4 === 'localhost' ? '127.0.0.1' : v4) ?? '';
  const isAddress = v6 === undefined ? isIPv4(host) : isIPv6(host);
  if (!isAddress || Number(port) > MAX_PORT) {
    throw new ListenUrlError('invalid', text, `\`${secure ? 'wss' : 'ws'}://IP:PORT\``);
  }
  return { kind: 'websocket', secure, host, port: Number(port) };
}

/** Takes the path literally, without percent-decoding. */
function parseUnixPath(text: string, path: string): UnixAddress {
  // A path cannot contain NUL; the system may take one for an abstract socket, which has no permissions (unix(7)).
  if (!path.startsWith('/') || path.endsWith('/') || path.includes('\0')) {
    throw new ListenUrlError('invalid', text, '`unix:///PATH`');
  }
  return { kind: 'unix', path };
}
