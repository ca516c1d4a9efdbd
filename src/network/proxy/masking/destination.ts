import { NetworkError } from '../../errors.ts';
import { isLoopbackAddress } from '../addresses.ts';
import { parseHost } from '../host.ts';

/** A request as far as it matters where it goes. */
export interface RequestPlace {
  readonly scheme: Scheme;
  /** In lower case, without brackets. */
  readonly host: string;
  readonly port: number;
  /** As it was sent, without its query. */
  readonly path: string;
}

export type Scheme = 'http' | 'https';

/** Where a credential may be sent: a scheme, a host or everything below one, a port, and a path with everything below it. */
export class Destination {
  readonly scheme: Scheme;
  /** Without the `*.` that stands for everything below it. */
  readonly host: string;
  readonly #below: boolean;
  readonly #port: number;
  readonly #path: string;

  /**
   * Reads `[scheme://][*.]host[:port][/path]`. Without a scheme it is https, and http for this machine; nowhere else may a credential
   * be sent in the clear. Throws NetworkError for what is none.
   */
  constructor(text: string) {
    const trimmed = text.trim();
    const [, scheme, star, rest = ''] =
      /^(?:([A-Za-z][A-Za-z0-9+.-]*):\/\/)?(\*\.)?(.*)$/s.exec(trimmed) ?? [];
    const [, authority = '', path = ''] = /^([^/?#\\@]*)(\/[^?#\\]*)?$/.exec(rest) ?? [];
    const [, hostText = '', portText] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(authority) ?? [];
    const host = parseHost(hostText);
    if (host === null || !isPlainPath(path)) throw wrong('expected [scheme://][*.]host[:port][/path]');
    this.#below = star !== undefined;
    this.host = host.address ?? host.name;
    const isLocal = this.host === 'localhost' || (host.address !== null && isLoopbackAddress(host.address));
    if (this.#below && host.address !== null) throw wrong('an address has nothing below it');
    this.scheme = schemeOf(scheme?.toLowerCase(), isLocal && !this.#below);
    this.#port = portText === undefined ? (this.scheme === 'http' ? 80 : 443) : Number(portText);
    if (this.#port < 1 || this.#port > 65_535) throw wrong('a port is from 1 to 65535');
    this.#path = path === '' ? '/' : path;
  }

  /** Equal for equal destinations. */
  get key(): string {
    return `${this.scheme}://${this.#below ? '*.' : ''}${this.host}:${this.#port}${this.#path}`;
  }

  /** Whether connections to there may carry requests that this is about. */
  isAt(host: string, port: number): boolean {
    if (port !== this.#port) return false;
    return this.#below ? host.endsWith(`.${this.host}`) : host === this.host;
  }

  /** Below a path, one that the other side may read in another way than it is written is never covered. */
  covers({ scheme, host, port, path }: RequestPlace): boolean {
    if (scheme !== this.scheme || !this.isAt(host, port)) return false;
    // However it is read, it does not lead out of the host.
    if (this.#path === '/') return path.startsWith('/');
    const folder = this.#path.endsWith('/') ? this.#path : `${this.#path}/`;
    return (path === this.#path || path.startsWith(folder)) && isPlainPath(path);
  }
}

function schemeOf(scheme: string | undefined, isLocal: boolean): Scheme {
  if (scheme === undefined) return isLocal ? 'http' : 'https';
  if (scheme === 'https' || (scheme === 'http' && isLocal)) return scheme;
  throw wrong('a credential is sent by https, and by http only to this machine');
}

/**
 * Whether a path can be read in one way only. Web servers differ about backslashes, about what is encoded, about parameters behind a
 * semicolon, about a `#` that no client should send, and about what ends a name; all of that can turn into `..` on the way.
 */
function isPlainPath(path: string): boolean {
  return path.split('/').every((segment) => {
    if (/[^\x21-\x7e]|[\\#]|%(?![0-9A-Fa-f]{2})|%(?:25|2f|5c|3b|3f|23|[01].|7f|c[01])/i.test(segment))
      return false;
    const name = segment.replace(/%2e/gi, '.').replace(/%20/g, '').replace(/;.*$/s, '');
    return !/^\.+$/.test(name);
  });
}

function wrong(what: string): NetworkError {
  return new NetworkError('invalid', `a URL prefix cannot be used: ${what}`);
}
