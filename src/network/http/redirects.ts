import { parseUrl } from '../../base/parse-url.ts';
import { NetworkError } from '../errors.ts';
import { withField, without } from './header-fields.ts';
import { type Hop, plainUrl } from './request.ts';

/**
 * The next hop after a redirect. Null when the response is the result, also without a target or with one that cannot be parsed.
 * Throws NetworkError for a target that is not http or https.
 */
export function nextHop(hop: Hop, status: number, location: string | undefined): Hop | null {
  if (!REDIRECTS.has(status) || location === undefined) return null;
  const target = parseUrl(location, hop.url);
  if (target === null) return null;
  const scheme = target.protocol.slice(0, -1);
  if (scheme !== 'http' && scheme !== 'https') {
    throw new NetworkError(
      'failed',
      `http/request failed: redirect target uses unsupported URL scheme: ${scheme}`,
    );
  }
  return toTarget(becomesGet(hop.method, status) ? withoutBody(hop, status) : hop, plainUrl(target));
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Headers that describe a body which is not sent again. */
const ABOUT_THE_BODY: ReadonlySet<string> = new Set([
  'content-type',
  'content-length',
  'content-encoding',
  'transfer-encoding',
]);

/** Headers that are meant for one server only. */
const CREDENTIALS: ReadonlySet<string> = new Set([
  'authorization',
  'cookie',
  'cookie2',
  'proxy-authorization',
  'www-authenticate',
]);

/** 303 always becomes GET; 301 and 302 change only POST, as browsers do. */
function becomesGet(method: string, status: number): boolean {
  return status === 303 || ((status === 301 || status === 302) && method === 'POST');
}

function withoutBody(hop: Hop, status: number): Hop {
  const method = status === 303 && hop.method === 'HEAD' ? 'HEAD' : 'GET';
  return { ...hop, method, body: null, fields: without(hop.fields, ABOUT_THE_BODY) };
}

/** Sends the origin as the referrer to another server, and no referrer from https to http. */
function toTarget(hop: Hop, url: URL): Hop {
  const sameOrigin = url.origin === hop.url.origin;
  let fields = sameOrigin ? [...hop.fields] : without(hop.fields, CREDENTIALS);
  if (!(hop.url.protocol === 'https:' && url.protocol === 'http:')) {
    const referer = sameOrigin ? hop.url.href : `${hop.url.origin}/`;
    fields = withField(fields, { name: 'referer', value: referer });
  }
  return { ...hop, url, fields };
}
