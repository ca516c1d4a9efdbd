import { NetworkError } from '../errors.ts';
import { withField, without } from './header-fields.ts';
import { type Hop, plainUrl } from './request.ts';

/**
 * Where an answer sends the client next; null when the answer itself is the result, as one without a target is, or with one that
 * cannot be read. Throws NetworkError for a target that is no web server.
 */
export function nextHop(hop: Hop, status: number, location: string | undefined): Hop | null {
  if (!REDIRECTS.has(status) || location === undefined || !URL.canParse(location, hop.url.href)) return null;
  const target = new URL(location, hop.url);
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

/** Headers about a body that is not sent again. */
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

/** "See other" is always looked up; the two older codes change a POST only, as browsers do. */
function becomesGet(method: string, status: number): boolean {
  return status === 303 || ((status === 301 || status === 302) && method === 'POST');
}

function withoutBody(hop: Hop, status: number): Hop {
  const method = status === 303 && hop.method === 'HEAD' ? 'HEAD' : 'GET';
  return { ...hop, method, body: null, fields: without(hop.fields, ABOUT_THE_BODY) };
}

/** Another server learns where the client comes from, but not the page; over an open line it learns nothing. */
function toTarget(hop: Hop, url: URL): Hop {
  const sameOrigin = url.origin === hop.url.origin;
  let fields = sameOrigin ? [...hop.fields] : without(hop.fields, CREDENTIALS);
  if (!(hop.url.protocol === 'https:' && url.protocol === 'http:')) {
    const referer = sameOrigin ? hop.url.href : `${hop.url.origin}/`;
    fields = withField(fields, { name: 'referer', value: referer });
  }
  return { ...hop, url, fields };
}
