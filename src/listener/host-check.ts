import { isIP } from 'node:net';
import { isLoopback } from './listen-url.ts';

/** Whether to accept a request with this Host header. A request without one does not come from a browser. */
export type HostCheck = (host: string | undefined) => boolean;

/**
 * Protects against DNS rebinding: a web page whose name resolves to this machine sends that name as Host. Loopback and the listen
 * address are always accepted. `allowed` lists more names, separated by commas; `*` accepts all. A server that listens on every
 * address accepts any IP address, but not any name.
 */
export function createHostCheck(listenHost: string, allowed: string): HostCheck {
  const names = new Set(
    allowed
      .split(',')
      .map(bareName)
      .filter((name) => name !== ''),
  );
  if (names.has('*')) return () => true;
  const listensEverywhere = listenHost === '0.0.0.0' || listenHost === '::';
  names.add(bareName(listenHost));
  return (host) => {
    if (host === undefined) return true;
    const name = bareName(host);
    if (names.has(name) || name === 'localhost') return true;
    return isIP(name) !== 0 && (listensEverywhere || isLoopback(name));
  };
}

/** The lower-case host without port, brackets and trailing dot. */
function bareName(host: string): string {
  const text = host.trim().toLowerCase();
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(text)?.[1];
  if (bracketed !== undefined) return bracketed;
  // An IPv6 address without brackets. `isIP` would compile a large regular expression at start-up.
  if (text.indexOf(':') !== text.lastIndexOf(':')) return text;
  return text.replace(/:\d*$/, '').replace(/\.$/, '');
}
