import { isIP } from 'node:net';
import { NetworkError } from '../errors.ts';
import { isPublicAddress, unmappedAddress } from '../proxy/addresses.ts';
import { parseHost } from '../proxy/host.ts';
import { HostPatterns } from '../proxy/host-patterns.ts';

/** Which hosts requests may reach. */
export interface HostPolicy {
  /** Null allows every host. */
  readonly allowed: HostPatterns | null;
  readonly denied: HostPatterns | null;
  /** Whether requests may reach addresses that are not public: this machine, its network, a cloud's metadata service. */
  readonly privateAddresses: boolean;
}

export const ANY_HOST: HostPolicy = { allowed: null, denied: null, privateAddresses: true };

/** Parses host patterns separated by commas; null when there are none. Throws NetworkError on an invalid pattern. */
export function hostPatterns(list: string): HostPatterns | null {
  const patterns = list.split(',').filter((pattern) => pattern.trim() !== '');
  return patterns.length === 0 ? null : new HostPatterns(patterns);
}

/** Throws NetworkError when requests must not reach the host of a URL, or its literal address. */
export function requireHost(policy: HostPolicy, url: URL): void {
  const { allowed } = policy;
  const host = bareHost(url);
  const parsed = parseHost(host);
  const option = optionAgainst(policy, host);
  if (option === 'httpDeniedHosts') throw refused(host, option);
  // A host that cannot be parsed is not allowed by any list.
  if (allowed !== null && (parsed === null || !allowed.covers(parsed)))
    throw refused(host, 'httpAllowedHosts');
  if (option !== null) throw refused(host, option);
}

/** Throws NetworkError when requests must not reach an address to which a host resolved. */
export function requireAddress(policy: HostPolicy, host: string, address: string): void {
  // A link-local address may have a zone index.
  const option = optionAgainst(policy, address.split('%')[0] ?? '');
  if (option !== null) throw refused(host, option);
}

/** The setting that forbids a host or address, whatever the list of allowed hosts says; null when none does. */
export function optionAgainst(
  { denied, privateAddresses }: Pick<HostPolicy, 'denied' | 'privateAddresses'>,
  host: string,
): 'httpDeniedHosts' | 'httpPrivateAddresses' | null {
  if (isDenied(denied, host)) return 'httpDeniedHosts';
  return isIP(host) !== 0 && !privateAddresses && !isPublicAddress(host) ? 'httpPrivateAddresses' : null;
}

/** Whether an allowed host may resolve to any address. */
export function anyAddress({ denied, privateAddresses }: HostPolicy): boolean {
  return denied === null && privateAddresses;
}

/** The host of a URL without brackets and without a trailing dot. */
export function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}

/** Denying an IPv4 address also denies its IPv4-mapped IPv6 form, and the other way round. */
function isDenied(denied: HostPatterns | null, host: string): boolean {
  const spellings = [parseHost(host), parseHost(unmappedAddress(host))];
  return denied !== null && spellings.some((spelling) => spelling === null || denied.covers(spelling));
}

function refused(host: string, option: string): NetworkError {
  return new NetworkError(
    'refused',
    `http/request is not allowed to reach ${host}: the server's configuration says so (${option})`,
  );
}
