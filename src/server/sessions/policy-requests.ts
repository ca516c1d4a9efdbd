import { TimeLimit } from '../../base/time-limit.ts';
import { ANSWER_GRACE_MS, MAX_OPEN_POLICY_REQUESTS, MAX_REASON_BYTES } from '../../network/proxy/limits.ts';
import type { NetworkPolicyDecision, NetworkPolicyRequest } from '../../protocol/network.ts';
import { CLIENT_METHODS } from '../../protocol/registry.ts';

/** The connection that receives policy requests. */
export interface PolicyRequestPeer {
  call(method: string, params: unknown, options: { readonly signal: AbortSignal }): Promise<unknown>;
}

/**
 * Asks the client of a session whether its programs may reach a host. The request goes to the client that is attached at that
 * moment. A request without a valid answer in time is denied.
 */
export class PolicyRequests {
  readonly #peer: () => PolicyRequestPeer | null;
  #open = 0;

  /** `peer` returns the attached connection; null while the session is detached. */
  constructor(peer: () => PolicyRequestPeer | null) {
    this.#peer = peer;
  }

  /** Resolves to the client's decision, or to a denial; never rejects. `signal` withdraws the request. */
  async send(
    processId: string,
    request: NetworkPolicyRequest,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<NetworkPolicyDecision> {
    const peer = this.#peer();
    if (peer === null || this.#open >= MAX_OPEN_POLICY_REQUESTS) return DENIED;
    this.#open++;
    try {
      const answer = await TimeLimit.run(timeoutMs + ANSWER_GRACE_MS, signal, (limited) =>
        peer.call('network/policyRequest', { processId, request }, { signal: limited }),
      );
      return checked(answer);
    } catch {
      return DENIED;
    } finally {
      this.#open--;
    }
  }
}

const DENIED: NetworkPolicyDecision = { type: 'deny', reason: 'not_allowed' };

/** Checks the client's answer. Its reason reaches programs and logs, so a long one or one with control characters is replaced. */
function checked(result: unknown): NetworkPolicyDecision {
  const parsed = CLIENT_METHODS['network/policyRequest'].result.safeParse(result);
  if (!parsed.success) return DENIED;
  const { decision } = parsed.data;
  if (decision.type === 'allow') return decision;
  const { type, reason } = decision;
  if (Buffer.byteLength(reason) > MAX_REASON_BYTES || /\p{Cc}/u.test(reason)) return DENIED;
  return { type, reason: reason === '' ? 'policy_denied' : reason };
}
