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

/** The destination that a program wants to reach, and how. */
export interface AccessRequest {
  readonly protocol: NetworkPolicyRequest['protocol'];
  readonly host: Host;
  readonly port: number;
  /** The HTTP method; null for SOCKS5. */
  readonly method: string | null;
  /** The address from which the program connected. */
  readonly client: string;
  /** Whether the proxy intercepts the requests inside the connection. */
  readonly intercepted?: boolean;
}

/** A decision as it is reported; the receiver adds the process. */
export type Decision = Omit<NetworkPolicyDecisionEvent, 'processId' | 'droppedBefore'>;

/** Receives the decisions of a proxy and answers its policy requests. */
export interface PolicyPeer {
  decided(decision: Decision): void;
  /** Asks the client to decide; null when there is no client to ask. Never rejects. */
  ask: ((request: NetworkPolicyRequest, signal: AbortSignal) => Promise<NetworkPolicyDecision>) | null;
}

/** Why a request is blocked. */
export interface Block {
  readonly reason: string;
  readonly decision: 'deny' | 'ask';
  readonly source: NetworkPolicyDecisionEvent['source'];
}

/** Either the only addresses that may be connected to, or why the request is blocked. */
export type Admitted =
  | { readonly addresses: readonly string[]; readonly block?: undefined }
  | { readonly block: Block };

/** What the admission of one proxy depends on. */
interface AdmissionContext {
  readonly policy: HostPolicy;
  readonly mode: NetworkProxySettings['mode'];
  readonly peer: PolicyPeer;
  readonly resolve: Resolve;
  readonly serverPorts: ServerPorts;
}

/**
 * Decides about every request of a program and reports each decision. The addresses of an admitted request have been checked. The
 * caller must connect to them and must not resolve the name again, which might give others.
 */
export class Admission {
  readonly #context: AdmissionContext;

  constructor(context: AdmissionContext) {
    this.#context = context;
  }

  async admit(request: AccessRequest, signal: AbortSignal): Promise<Admitted> {
    const early = this.#blockedEarly(request);
    if (early !== null) return this.#blockedByCheck(request, early);
    const domain = await this.#admitHost(request, signal);
    if (domain.block !== undefined) return domain;
    const late = this.#blockedByMode(request);
    return late === null ? domain : this.#blockedByCheck(request, late);
  }

  /** Decides about a request inside an admitted connection. */
  admitInside(request: AccessRequest): Block | null {
    if (this.#context.mode === 'full' || LIMITED_METHODS.has(request.method ?? '')) return null;
    const block = deny('method_not_allowed', 'mode_guard');
    this.#report(request, { scope: 'non_domain', ...block });
    return block;
  }

  /** Reports a request that is refused for any host. */
  refuse(request: AccessRequest, reason: string): void {
    this.#report(request, { scope: 'non_domain', decision: 'deny', source: 'proxy_state', reason });
  }

  async #admitHost(request: AccessRequest, signal: AbortSignal): Promise<Admitted> {
    const { policy, peer } = this.#context;
    const verdict = policy.evaluate(request.host);
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

  /** The host's addresses, or why it is blocked: denied, unknown, not public although it must be, or a port of this server. */
  async #checkedAddresses(
    { host, port }: AccessRequest,
    trusted: boolean,
  ): Promise<readonly string[] | 'denied' | 'not_allowed_local'> {
    const { policy, resolve, serverPorts } = this.#context;
    const lenient = trusted || policy.allowsLocal;
    const addresses = host.address === null ? await addressesOf(host.name, resolve) : [host.address];
    if (addresses.some((address) => policy.deniesAddress(address))) return 'denied';
    // With local hosts allowed an unknown name is not blocked; connecting to it fails.
    if (addresses.length === 0) return lenient ? [] : 'not_allowed_local';
    if (!lenient && !addresses.every(isPublicAddress)) return 'not_allowed_local';
    return addresses.some((address) => serverPorts.includes(address, port)) ? 'not_allowed_local' : addresses;
  }

  /** SOCKS5 has no methods. In limited mode only the HTTPS port proceeds to the decision about the host. */
  #blockedEarly({ protocol, port }: AccessRequest): Block | null {
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

  #blockedByCheck(request: AccessRequest, block: Block): Admitted {
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
