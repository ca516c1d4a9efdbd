import { isLoopbackHost } from './loopback.ts';

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * The proxy that the environment names for a URL; null where there is none. This machine is always reached directly: behind a proxy
 * its address means another one.
 */
export function proxyFor(url: URL, env: Variables): URL | null {
  const secure = url.protocol === 'https:' || url.protocol === 'wss:';
  const port = url.port || (secure ? '443' : '80');
  if (isLoopbackHost(url.hostname) || isExempt(url.hostname, port, variable(env, 'no_proxy'))) return null;
  const text = variable(env, secure ? 'https_proxy' : 'http_proxy') || variable(env, 'all_proxy');
  if (text === '') return null;
  // A host and port alone are what people write as well.
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  const proxy = URL.canParse(address) ? new URL(address) : null;
  if (proxy === null || (proxy.protocol !== 'http:' && proxy.protocol !== 'https:')) {
    throw new TypeError('the proxy that the environment names is no http:// or https:// URL');
  }
  return proxy;
}

function isExempt(hostname: string, port: string, list: string): boolean {
  const host = hostname.toLowerCase().replace(/^\[|\]$/g, '');
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .some((entry) => entry === '*' || matches(entry, host, port));
}

/** A name stands for itself and everything below it, with or without a dot or a star in front; a port narrows it. */
function matches(entry: string, host: string, port: string): boolean {
  const [, name = entry, wantedPort] = /^(.*[^:]):(\d+)$/.exec(entry) ?? [];
  if (wantedPort !== undefined && wantedPort !== port) return false;
  const bare = name.replace(/^\*?\./, '').replace(/^\[|\]$/g, '');
  return host === bare || host.endsWith(`.${bare}`);
}

function variable(env: Variables, name: string): string {
  return (env[name] ?? env[name.toUpperCase()] ?? '').trim();
}
