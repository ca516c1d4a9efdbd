import { NetworkError } from '../../errors.ts';
import { isLoopbackAddress } from '../addresses.ts';
import { parseHost } from '../host.ts';

/** The target of a request. */
export interface RequestTarget {
  readonly scheme: Scheme;
  /** In lower case, without brackets. */
  readonly host: string;
  readonly port: number;
  /** As it was sent, without the query. */
  readonly path: string;
}

export type Scheme = 'http' | 'https';

/** Where a credential may be sent: a scheme, a host or its subdomains, a port, and a path with everything below it. */
export class Destination {
  readonly scheme: Scheme;
  /** Without the `*.` for subdomains. */
  readonly host: string;
  readonly #below: boolean;
  readonly #port: number;
  readonly #path: string;

  /**
   * Parses `[scheme://][*.]host[:port][/path]`. The default scheme is https, and http for this machine. A credential is never sent
   * unencrypted to another machine. Throws NetworkError on an invalid text.
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
    if (this.#below && host.address !== null) throw wrong('an address has no subdomains');
    this.scheme = schemeOf(scheme?.toLowerCase(), isLocal && !this.#below);
    this.#port = portText === undefined ? (this.scheme === 'http' ? 80 : 443) : Number(portText);
    if (this.#port < 1 || this.#port > 65_535) throw wrong('a port must be from 1 to 65535');
    this.#path = path === '' ? '/' : path;
  }

  /** Equal for equal destinations. */
  get key(): string {
    return `${this.scheme}://${this.#below ? '*.' : ''}${this.host}:${this.#port}${this.#path}`;
  }

  /** Whether a connection to this host and port may carry requests to the destination. */
  isAt(host: string, port: number): boolean {
    if (port !== this.#port) return false;
    return this.#below ? host.endsWith(`.${this.host}`) : host === this.host;
  }

  /** With a path prefix, never covers a path that the web server might interpret differently. */
  covers({ scheme, host, port, path }: RequestTarget): boolean {
    if (scheme !== this.scheme || !this.isAt(host, port)) return false;
    // Any interpretation of the path stays on the host.
    if (this.#path === '/') return path.startsWith('/');
    const folder = this.#path.endsWith('/') ? this.#path : `${this.#path}/`;
    return (path === this.#path || path.startsWith(folder)) && isPlainPath(path);
  }
}

function schemeOf(scheme: string | undefined, isLocal: boolean): Scheme {
  if (scheme === undefined) return isLocal ? 'http' : 'https';
  if (scheme === 'https' || (scheme === 'http' && isLocal)) return scheme;
  throw wrong('credentials are sent only over https, or over http to this machine');
}

/**
 * Whether a path has only one interpretation. Web servers differ in their treatment of backslashes, escapes, parameters after a
 * semicolon, a `#`, and characters that end a name. Each of these can turn into `..`.
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
  return new NetworkError('invalid', `invalid URL prefix: ${what}`);
}
