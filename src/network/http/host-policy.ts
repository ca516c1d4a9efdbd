import { isIP } from 'node:net';
import { NetworkError } from '../errors.ts';
import { isPublicAddress, unmappedAddress } from '../proxy/addresses.ts';
import { parseHost } from '../proxy/host.ts';
import { HostPatterns } from '../proxy/host-patterns.ts';

/** Where requests may go. */
export interface HostPolicy {
  /** Null allows every host. */
  readonly allowed: HostPatterns | null;
  readonly denied: HostPatterns | null;
  /** Whether addresses may be reached that are not public ones: this machine, its network, a cloud's metadata. */
  readonly privateAddresses: boolean;
}

export const ANY_HOST: HostPolicy = { allowed: null, denied: null, privateAddresses: true };

/** Host patterns that are separated by commas; null when there are none. Throws NetworkError on what is no pattern. */
export function hostPatterns(list: string): HostPatterns | null {
  const patterns = list.split(',').filter((pattern) => pattern.trim() !== '');
  return patterns.length === 0 ? null : new HostPatterns(patterns);
}

/** Throws NetworkError when the host of a URL, or the address that it is, may not be reached. */
export function requireHost({ allowed, denied, privateAddresses }: HostPolicy, url: URL): void {
  const host = bareHost(url);
  const parsed = parseHost(host);
  // What the lists cannot read they cannot let through.
  if (isDenied(denied, host)) throw refused(host, 'httpDeniedHosts');
  if (allowed !== null && (parsed === null || !allowed.covers(parsed)))
    throw refused(host, 'httpAllowedHosts');
  if (isIP(host) !== 0 && !privateAddresses && !isPublicAddress(host))
    throw refused(host, 'httpPrivateAddresses');
}

/** Throws NetworkError when an address to which a host has led may not be reached. */
export function requireAddress(policy: HostPolicy, host: string, address: string): void {
  // An address of one link may name the interface behind it.
  const plain = address.split('%')[0] ?? '';
  if (isDenied(policy.denied, plain)) throw refused(host, 'httpDeniedHosts');
  if (!policy.privateAddresses && !isPublicAddress(plain)) throw refused(host, 'httpPrivateAddresses');
}

/** Whether every address may be reached to which a host leads that may be. */
export function anyAddress({ denied, privateAddresses }: HostPolicy): boolean {
  return denied === null && privateAddresses;
}

/** The host of a URL without the brackets of an address and without the dot that ends a full name. */
export function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}

/** The IPv4 address that is written as IPv6 is denied with the other, and the other with it. */
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
