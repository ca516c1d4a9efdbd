import { BlockList, isIPv4 } from 'node:net';
import type { CredentialMasks } from './masking/credential-masks.ts';

/** The URLs on which the proxy of a program listens. */
interface ProxyUrls {
  readonly http: string;
  /** Null without SOCKS5; the HTTP proxy is used instead. */
  readonly socks: string | null;
}

/** The variables that make programs use their proxy. They replace the program's own values. */
export function proxyEnvironment(
  { http, socks }: ProxyUrls,
  allowLocalBinding: boolean,
): Readonly<Record<string, string>> {
  const direct = allowLocalBinding ? LOCAL_HOSTS : '';
  return {
    ...same(HTTP_NAMES, http),
    ...same(OTHER_NAMES, socks ?? http),
    ...same(DIRECT_NAMES, direct),
    CODEX_NETWORK_PROXY_ACTIVE: '1',
    CODEX_NETWORK_ALLOW_LOCAL_BINDING: allowLocalBinding ? '1' : '0',
    ELECTRON_GET_USE_PROXY: 'true',
    NODE_USE_ENV_PROXY: '1',
  };
}

/**
 * The no-proxy variables without hosts to which credentials are sent. Without the proxy these hosts would receive masks and not the
 * credentials.
 */
export function withoutCredentialHosts(
  environment: Readonly<Record<string, string>>,
  masks: CredentialMasks,
): Readonly<Record<string, string>> {
  const hosts = masks.all.flatMap(({ destinations }) => destinations.map(({ host }) => host));
  const direct = (environment.NO_PROXY ?? '').split(',');
  const kept = direct.filter((entry) => !hosts.some((host) => isNamedBy(entry, host)));
  return same(DIRECT_NAMES, kept.join(','));
}

/** An entry is a host, which includes its subdomains, or a range of addresses. */
function isNamedBy(entry: string, host: string): boolean {
  const [network = '', prefix] = entry.split('/');
  if (prefix === undefined) return host === network || host.endsWith(`.${network}`);
  const range = new BlockList();
  range.addSubnet(network, Number(prefix), 'ipv4');
  return isIPv4(host) && range.check(host, 'ipv4');
}

const HTTP_NAMES = [
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'http_proxy',
  'https_proxy',
  'WS_PROXY',
  'WSS_PROXY',
  'ws_proxy',
  'wss_proxy',
  'NPM_CONFIG_HTTP_PROXY',
  'NPM_CONFIG_HTTPS_PROXY',
  'NPM_CONFIG_PROXY',
  'npm_config_http_proxy',
  'npm_config_https_proxy',
  'npm_config_proxy',
  'YARN_HTTP_PROXY',
  'YARN_HTTPS_PROXY',
  'BUNDLE_HTTP_PROXY',
  'BUNDLE_HTTPS_PROXY',
  'PIP_PROXY',
  'DOCKER_HTTP_PROXY',
  'DOCKER_HTTPS_PROXY',
];

/** For protocols other than HTTP. */
const OTHER_NAMES = ['ALL_PROXY', 'all_proxy', 'FTP_PROXY', 'ftp_proxy'];

/** Hosts that programs reach without the proxy. */
const DIRECT_NAMES = ['NO_PROXY', 'no_proxy', 'NPM_CONFIG_NOPROXY', 'npm_config_noproxy', 'BUNDLE_NO_PROXY'];

const LOCAL_HOSTS = 'localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16';

function same(names: readonly string[], value: string): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, value]));
}
