import { MAX_TIMER_MS } from '../../network/limits.ts';
import { ANSWER_GRACE_MS, MAX_OPEN_POLICY_REQUESTS, MAX_REASON_BYTES } from '../../network/proxy/limits.ts';
import type { NetworkPolicyDecision, NetworkPolicyRequest } from '../../protocol/network.ts';
import { CLIENT_METHODS } from '../../protocol/registry.ts';

/** The connection that answers, as far as questions go. */
export interface QuestionPeer {
  call(method: string, params: unknown, options: { readonly signal: AbortSignal }): Promise<unknown>;
}

/**
 * Asks the client of a session about hosts that its programs want to reach. Whoever is attached when a question comes up is asked;
 * a question that is not answered properly and in time, for whatever reason, is answered with a denial.
 */
export class PolicyQuestions {
  readonly #peer: () => QuestionPeer | null;
  #open = 0;

  /** `peer` gives the connection that is attached now, if one is. */
  constructor(peer: () => QuestionPeer | null) {
    this.#peer = peer;
  }

  /** Never rejects. The signal takes the question back. */
  async ask(
    processId: string,
    request: NetworkPolicyRequest,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<NetworkPolicyDecision> {
    const peer = this.#peer();
    if (peer === null || this.#open >= MAX_OPEN_POLICY_REQUESTS) return DENIED;
    this.#open++;
    const patience = AbortSignal.timeout(Math.min(timeoutMs + ANSWER_GRACE_MS, MAX_TIMER_MS));
    try {
      const options = { signal: AbortSignal.any([signal, patience]) };
      return checked(await peer.call('network/policyRequest', { processId, request }, options));
    } catch {
      return DENIED;
    } finally {
      this.#open--;
    }
  }
}

const DENIED: NetworkPolicyDecision = { type: 'deny', reason: 'not_allowed' };

/** What a client gives as its reason reaches programs and logs, so it has to be short and harmless. */
function checked(result: unknown): NetworkPolicyDecision {
  const parsed = CLIENT_METHODS['network/policyRequest'].result.safeParse(result);
  if (!parsed.success) return DENIED;
  const { decision } = parsed.data;
  if (decision.type === 'allow') return decision;
  const { type, reason } = decision;
  if (Buffer.byteLength(reason) > MAX_REASON_BYTES || /\p{Cc}/u.test(reason)) return DENIED;
  return { type, reason: reason === '' ? 'policy_denied' : reason };
}
