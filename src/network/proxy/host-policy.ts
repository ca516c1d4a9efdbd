import type { NetworkProxySettings } from '../../protocol/network.ts';
import { NetworkError } from '../errors.ts';
import { isPublicAddress, unmappedAddress } from './addresses.ts';
import { type Host, parseHost } from './host.ts';
import { HostPatterns } from './host-patterns.ts';

/** The verdict of the patterns. An open host is `trusted` when it is a local address that is allowed by its exact name. */
type HostVerdict =
  | { readonly open: true; readonly trusted: boolean }
  | { readonly open: false; readonly reason: 'denied' | 'not_allowed_local' | 'not_allowed' };

/** Which hosts a program may reach, as far as that is known without resolving names. */
export class HostPolicy {
  /** Whether hosts on local and private addresses are treated like all others. */
  readonly allowsLocal: boolean;
  readonly #allowed: HostPatterns;
  readonly #denied: HostPatterns;
  readonly #reviewed: HostPatterns;

  /** Throws NetworkError when a pattern is invalid or denies everything: an empty list does that. */
  constructor(settings: Pick<NetworkProxySettings, 'allowLocalBinding' | 'domains' | 'reviewDomains'>) {
    const patterns = Object.entries(settings.domains ?? {});
    const select = (wanted: string) =>
      new HostPatterns(
        patterns.filter(([, permission]) => permission === wanted).map(([pattern]) => pattern),
      );
    this.allowsLocal = settings.allowLocalBinding;
    this.#allowed = select('allow');
    this.#denied = select('deny');
    this.#reviewed = new HostPatterns(settings.reviewDomains);
    if (this.#denied.coversAll) {
      throw new NetworkError(
        'invalid',
        'a pattern that denies every host is refused: hosts that no pattern allows are denied anyway',
      );
    }
  }

  evaluate(host: Host): HostVerdict {
    if (this.#denies(host)) return { open: false, reason: 'denied' };
    const trusted = isLocal(host) && this.#allowed.names(host);
    if (isLocal(host) && !trusted && !this.allowsLocal) return { open: false, reason: 'not_allowed_local' };
    if (!this.#allowed.covers(host) || this.#reviewed.covers(host))
      return { open: false, reason: 'not_allowed' };
    return { open: true, trusted };
  }

  /** Whether an address is denied to which a name resolved. Without this check anyone with a domain could name any address. */
  deniesAddress(address: string): boolean {
    const host = parseHost(address.replace(/%.*/, ''));
    return host !== null && this.#denies(host);
  }

  #denies(host: Host): boolean {
    return spellingsOf(host).some((spelling) => this.#denied.covers(spelling));
  }
}

/** The host, and its IPv4 form if it is IPv4-mapped: denying either denies both. */
function spellingsOf(host: Host): Host[] {
  const address = host.address === null ? null : unmappedAddress(host.address);
  return address === null || address === host.address ? [host] : [host, { ...host, name: address, address }];
}

/** Whether the name itself shows that the host is not public. */
function isLocal(host: Host): boolean {
  return host.address === null ? host.name === 'localhost' : !isPublicAddress(host.address);
}
