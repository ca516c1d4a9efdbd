import type {
  NetworkPolicyDecision,
  NetworkPolicyDecisionEvent,
  NetworkPolicyRequest,
  NetworkProxySettings,
} from '../../protocol/network.ts';
import { isPublicAddress } from './addresses.ts';
import type { Host } from './host.ts';
import type { HostPolicy } from './host-policy.ts';
import type { ServerPorts } from './proxy-resources.ts';
import { addressesOf, type Resolve } from './proxy-resources.ts';

/** What a program wants to reach, and how. */
export interface AccessRequest {
  readonly protocol: NetworkPolicyRequest['protocol'];
  readonly host: Host;
  readonly port: number;
  /** The HTTP method; null for SOCKS5. */
  readonly method: string | null;
  /** Where the program connected from. */
  readonly client: string;
  /** Whether the requests inside of a connection will be seen. */
  readonly intercepted?: boolean;
}

/** A decision as it is reported; what it is about is added by the receiver. */
export type Decision = Omit<NetworkPolicyDecisionEvent, 'processId' | 'droppedBefore'>;

/** Where a proxy reports what it decides and whom it asks. */
export interface PolicyPeer {
  decided(decision: Decision): void;
  /** Asks whoever answers for the program; null when nobody is there to be asked. It never rejects. */
  ask: ((question: NetworkPolicyRequest, signal: AbortSignal) => Promise<NetworkPolicyDecision>) | null;
}

/** Why a request is blocked. */
export interface Block {
  readonly reason: string;
  readonly decision: 'deny' | 'ask';
  readonly source: NetworkPolicyDecisionEvent['source'];
}

/** Either the addresses that may be connected to, and no others, or why not. */
export type Admitted =
  | { readonly addresses: readonly string[]; readonly block?: undefined }
  | { readonly block: Block };

/** What admissions of one proxy depend on. */
export interface AdmissionContext {
  readonly policy: HostPolicy;
  readonly mode: NetworkProxySettings['mode'];
  readonly peer: PolicyPeer;
  readonly resolve: Resolve;
  readonly serverPorts: ServerPorts;
}

/**
 * Decides about every request of a program, and reports each decision. The addresses of an admitted request were looked at: whoever
 * connects must take them and not resolve the name again, which might give others.
 */
export class Admission {
  readonly #context: AdmissionContext;

  constructor(context: AdmissionContext) {
    this.#context = context;
  }

  async admit(request: AccessRequest, signal: AbortSignal): Promise<Admitted> {
    const early = this.#blockedBeforehand(request);
    if (early !== null) return this.#guarded(request, early);
    const domain = await this.#admitHost(request, signal);
    if (domain.block !== undefined) return domain;
    const late = this.#blockedByMode(request);
    return late === null ? domain : this.#guarded(request, late);
  }

  /** Decides about a request inside of a connection that was admitted. */
  admitInside(request: AccessRequest): Block | null {
    if (this.#context.mode === 'full' || LIMITED_METHODS.has(request.method ?? '')) return null;
    const block = deny('method_not_allowed', 'mode_guard');
    this.#report(request, { scope: 'non_domain', ...block });
    return block;
  }

  /** Reports that something was refused whatever its host is. */
  refuse(request: AccessRequest, reason: string): void {
    this.#report(request, { scope: 'non_domain', decision: 'deny', source: 'proxy_state', reason });
  }

  async #admitHost(request: AccessRequest, signal: AbortSignal): Promise<Admitted> {
    const { policy, peer } = this.#context;
    const verdict = policy.judge(request.host);
    if (verdict.open) {
      const addresses = await this.#checkedAddresses(request, verdict.trusted);
      if (typeof addresses === 'string') return this.#blocked(request, deny(addresses, 'baseline_policy'));
      this.#report(request, {
        scope: 'domain',
        decision: 'allow',
        source: 'baseline_policy',
        reason: 'allow',
      });
      return { addresses };
    }
    if (verdict.reason !== 'not_allowed' || peer.ask === null) {
      return this.#blocked(request, deny(verdict.reason, 'baseline_policy'));
    }
    const { protocol, host, port } = request;
    const answer = await peer.ask({ protocol, host: host.name, port }, signal);
    if (answer.type !== 'allow') {
      return this.#blocked(request, { reason: answer.reason, decision: answer.type, source: 'decider' });
    }
    const addresses = await this.#checkedAddresses(request, false);
    if (typeof addresses === 'string') return this.#blocked(request, deny(addresses, 'baseline_policy'));
    const override = {
      scope: 'domain',
      decision: 'allow',
      source: 'decider',
      reason: 'not_allowed',
    } as const;
    this.#report(request, override, true);
    return { addresses };
  }

  /** Where the host is, or why nobody may go there: it is denied, unknown, not public though it should be, or this server itself. */
  async #checkedAddresses(
    { host, port }: AccessRequest,
    trusted: boolean,
  ): Promise<readonly string[] | 'denied' | 'not_allowed_local'> {
    const { policy, resolve, serverPorts } = this.#context;
    const lenient = trusted || policy.allowsLocal;
    const addresses = host.address === null ? await addressesOf(host.name, resolve) : [host.address];
    if (addresses.some((address) => policy.deniesAddress(address))) return 'denied';
    // Where local hosts are welcome nothing is wrong with a name that is unknown: connecting to it fails.
    if (addresses.length === 0) return lenient ? [] : 'not_allowed_local';
    if (!lenient && !addresses.every(isPublicAddress)) return 'not_allowed_local';
    return addresses.some((address) => serverPorts.includes(address, port)) ? 'not_allowed_local' : addresses;
  }

  /** SOCKS5 says nothing of methods, so in limited mode only what may be HTTPS gets as far as a decision about its host. */
  #blockedBeforehand({ protocol, port }: AccessRequest): Block | null {
    if (this.#context.mode === 'full') return null;
    const blocked = protocol === 'socks5_udp' || (protocol === 'socks5_tcp' && port !== 443);
    return blocked ? deny('method_not_allowed', 'mode_guard') : null;
  }

  #blockedByMode({ protocol, method, intercepted = false }: AccessRequest): Block | null {
    if (this.#context.mode === 'full' || intercepted) return null;
    if (protocol !== 'http') return deny('mitm_required', 'mode_guard');
    return LIMITED_METHODS.has(method ?? '') ? null : deny('method_not_allowed', 'mode_guard');
  }

  #blocked(request: AccessRequest, block: Block): Admitted {
    this.#report(request, { scope: 'domain', ...block });
    return { block };
  }

  #guarded(request: AccessRequest, block: Block): Admitted {
    this.#report(request, { scope: 'non_domain', ...block });
    return { block };
  }

  #report(
    { protocol, host, port, method, client }: AccessRequest,
    { scope, decision, source, reason }: Pick<Decision, 'scope' | 'decision' | 'source' | 'reason'>,
    policyOverride = false,
  ): void {
    this.#context.peer.decided({
      timestamp: new Date().toISOString(),
      scope,
      decision,
      source,
      reason,
      protocol,
      host: host.name,
      port,
      ...(method === null ? {} : { method }),
      client,
      policyOverride,
    });
  }
}

const LIMITED_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

function deny(reason: string, source: Block['source']): Block {
  return { reason, decision: 'deny', source };
}
