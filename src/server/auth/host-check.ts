import { isIP } from 'node:net';
import { isLoopback } from '../../listener/listen-url.ts';

/** Whether a request whose Host header is this may be answered. A request without one does not come from a browser. */
export type HostCheck = (host: string | undefined) => boolean;

/**
 * Keeps out web pages that have their own name resolve to this machine (DNS rebinding): what they send carries that name. Loopback
 * and the address listened on are always answered; `allowed` names more, separated by commas, and `*` is everybody. A server that
 * listens on every address answers to any address, but not to any name.
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

/** Without port, brackets, the dot at the end and capitals. */
function bareName(host: string): string {
  const text = host.trim().toLowerCase();
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(text)?.[1];
  if (bracketed !== undefined) return bracketed;
  // An IPv6 address that somebody wrote without brackets. Asking `isIP` would compile a large expression at start-up.
  if (text.indexOf(':') !== text.lastIndexOf(':')) return text;
  return text.replace(/:\d*$/, '').replace(/\.$/, '');
}
