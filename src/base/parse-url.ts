import { MAX_URL_HOST_LENGTH } from './limits.ts';

/**
 * Parses a URL that a client or another server sent. Null when it is invalid, or when its host is too long: the time for an
 * international host name grows with the square of its length, 2 s for 200 KB.
 */
export function parseUrl(text: string, base?: URL): URL | null {
  const authority = HAS_NO_HOST.test(text) ? '' : (AUTHORITY.exec(text)?.[1] ?? '');
  if (authority.length - (authority.lastIndexOf('@') + 1) > MAX_URL_HOST_LENGTH) return null;
  try {
    return new URL(text, base);
  } catch {
    return null;
  }
}

/** A file URI with a third slash has an empty host, and the first name of its path may be long. */
const HAS_NO_HOST = /^file:[/\\]{3}/i;

/**
 * What the URL parser may take for user and host: it accepts any number of slashes and backslashes after a scheme, and ignores white
 * space.
 */
const AUTHORITY = /^[\x00-\x20]*(?:[a-z][a-z0-9+.\-\t\r\n]*:[/\\\t\r\n]*|[/\\\t\r\n]{2,})([^/\\?#]*)/i;
