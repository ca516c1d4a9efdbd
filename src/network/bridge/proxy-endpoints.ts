import { NetworkError } from '../errors.ts';
import { MAX_BRIDGED_PORTS } from './limits.ts';

/**
 * The ports of 127.0.0.1 on which an environment says that proxies listen, each once. Throws NetworkError when no variable names a
 * proxy, and when none of those that do names one on this machine's loopback: a program that may only use its proxy could then use
 * nothing.
 */
export function loopbackProxyPorts(env: Readonly<Record<string, string>>): number[] {
  const values = Object.entries(env).filter(([name, value]) => PROXY_VARIABLE.test(name) && value !== '');
  if (values.length === 0) {
    throw new NetworkError('invalid', 'managed proxy mode requires proxy environment variables');
  }
  const ports = new Set(values.map(([, value]) => loopbackPort(value)).filter((port) => port !== null));
  if (ports.size === 0) {
    throw new NetworkError('invalid', 'managed proxy mode requires parseable loopback proxy endpoints');
  }
  if (ports.size > MAX_BRIDGED_PORTS) {
    throw new NetworkError(
      'limit',
      `the environment names proxies on ${ports.size} ports, and ${MAX_BRIDGED_PORTS} are possible`,
    );
  }
  return [...ports];
}

const PROXY_VARIABLE = /^(?:(?:.*_)?(?:HTTPS?|WSS?|ALL|FTP)_PROXY|PIP_PROXY|NPM_CONFIG_PROXY)$/i;

/** Null unless it is a URL, or a bare authority, of 127.0.0.1 under this address or its name. */
function loopbackPort(value: string): number | null {
  const [, scheme = 'http', host = '', port] = ENDPOINT.exec(value) ?? [];
  if (host !== '127.0.0.1' && host.toLowerCase() !== 'localhost') return null;
  const number = port === undefined ? DEFAULT_PORTS[scheme.toLowerCase()] : Number(port);
  return number !== undefined && number >= 1 && number <= 65_535 ? number : null;
}

const ENDPOINT = /^(?:([a-z][a-z0-9+.-]*):\/\/)?(?:[^@/]*@)?([^:@/]+)(?::(\d{1,5}))?(?:\/.*)?$/i;

const DEFAULT_PORTS: Readonly<Record<string, number>> = {
  http: 80,
  https: 443,
  socks: 1080,
  socks4: 1080,
  socks4a: 1080,
  socks5: 1080,
  socks5h: 1080,
};
