import { parseUrl } from '../../base/parse-url.ts';
import { NetworkError } from '../errors.ts';
import {
  type HeaderField,
  type HeaderVariables,
  isToken,
  type RequestedHeader,
  requestFields,
  type Variables,
  valuesOf,
  withField,
  without,
} from './header-fields.ts';

/** A request as a client sends it. */
export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly RequestedHeader[];
  /** Null and empty both mean no body. */
  readonly body: Uint8Array | null;
  readonly redirect: 'follow' | 'stop';
  /** Covers everything up to the end of the body. Null is no limit; 0 expires immediately. */
  readonly timeoutMs: number | null;
}

/** One request to one server. The URL has no user and no fragment. */
export interface Hop {
  readonly method: string;
  readonly url: URL;
  /** The headers of the client; {@link wireFields} adds what every request needs. */
  readonly fields: readonly HeaderField[];
  readonly body: Uint8Array | null;
}

/** The first hop of a request. Throws NetworkError when the request is invalid. */
export function firstHop(request: HttpRequest, env: Variables, usable: HeaderVariables): Hop {
  const { method, headers, body } = request;
  if (!isToken(method)) throw invalid('http/request method is invalid: invalid HTTP method');
  const url = parsedUrl(request.url);
  let fields = requestFields(headers, env, usable);
  if ((url.username !== '' || url.password !== '') && valuesOf(fields, 'authorization').length === 0) {
    fields = [{ name: 'authorization', value: basicCredentials(url) }, ...fields];
  }
  return { method, url: plainUrl(url), fields, body: body?.length ? body : null };
}

/**
 * The headers in the order in which they are sent: the client's, then missing ones. Throws on a content-length that contradicts the
 * body, because part of the body could then be taken for another request.
 */
export function wireFields({ fields, url, body }: Hop): HeaderField[] {
  let sent = [...fields];
  const encodings = valuesOf(sent, 'transfer-encoding');
  if (encodings.length > 0) {
    sent = without(sent, FRAMING.length);
    sent =
      body === null
        ? without(sent, FRAMING.encoding)
        : withField(sent, { name: 'transfer-encoding', value: endingInChunked(encodings) });
  }
  if (valuesOf(sent, 'accept').length === 0) sent.push({ name: 'accept', value: '*/*' });
  if (valuesOf(sent, 'host').length === 0) sent.push({ name: 'host', value: url.host });
  const size = String(body?.length ?? 0);
  const lengths = valuesOf(sent, 'content-length');
  if (lengths.some((length) => length !== size) || lengths.length > 1) {
    throw invalid('http/request header content-length contradicts the body');
  }
  if (lengths.length === 0 && body !== null && encodings.length === 0) {
    sent.push({ name: 'content-length', value: size });
  }
  return sent;
}

/** A URL without user, password and fragment. */
export function plainUrl(url: URL): URL {
  const plain = new URL(url);
  plain.username = '';
  plain.password = '';
  plain.hash = '';
  return plain;
}

/** A URL for messages, without the parts that often contain secrets. */
export function shownUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** Host and port in authority form. */
export function authorityOf(url: URL): string {
  return `${url.hostname}:${portOf(url)}`;
}

export function portOf(url: URL): number {
  return Number(url.port || (url.protocol === 'https:' ? 443 : 80));
}

/** `Basic` credentials from the user and password of a URL. */
export function basicCredentials({ username, password }: URL): string {
  const plain = `${unescaped(username)}:${unescaped(password)}`;
  return `Basic ${Buffer.from(plain, 'latin1').toString('base64')}`;
}

/** Decodes percent escapes to one character per byte; a URL contains only ASCII. */
function unescaped(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

const FRAMING = { length: new Set(['content-length']), encoding: new Set(['transfer-encoding']) };

function endingInChunked(encodings: readonly string[]): string {
  const all = encodings.join(', ');
  return /(?:^|,)\s*chunked\s*$/i.test(all) ? all : `${all}, chunked`;
}

function parsedUrl(text: string): URL {
  const url = parseUrl(text);
  if (url === null) throw invalid('http/request url is invalid: it is not an absolute URL');
  const scheme = url.protocol.slice(0, -1);
  if (scheme !== 'http' && scheme !== 'https') {
    throw invalid(`http/request only supports http and https URLs, got ${scheme}`);
  }
  return url;
}

function invalid(message: string): NetworkError {
  return new NetworkError('invalid', message);
}
