import { invalidParams } from '../../protocol/errors.ts';
import type { NetworkPolicyDecision, NetworkPolicyRequest } from '../../protocol/network.ts';
import { MAX_POLICY_REQUESTS } from '../limits.ts';
import { readPolicyRequest } from './server-messages.ts';

/** A host that a program wants to reach and that no pattern of its proxy allows. */
export interface PolicyRequest extends NetworkPolicyRequest {
  readonly processId: string;
}

/**
 * Decides about one question. The signal is aborted when nobody waits for the answer any more. A handler that throws has denied.
 */
export type PolicyHandler = (
  question: PolicyRequest,
  signal: AbortSignal,
) => NetworkPolicyDecision | Promise<NetworkPolicyDecision>;

/** Answers what a server asks about the network of its programs. Whatever goes wrong, the answer is a denial. */
export class PolicyRequests {
  readonly #handler: PolicyHandler | undefined;
  readonly #isOwn: (processId: string) => boolean;
  #open = 0;

  /** `isOwn` tells the processes of this client from others that its session may have: nothing is allowed to those. */
  constructor(handler: PolicyHandler | undefined, isOwn: (processId: string) => boolean) {
    this.#handler = handler;
    this.#isOwn = isOwn;
  }

  /** The result of `network/policyRequest`. Rejects with RpcError when the params make no sense. */
  async answer(params: unknown, signal: AbortSignal): Promise<{ readonly decision: NetworkPolicyDecision }> {
    const question = readPolicyRequest(params);
    if (question === null) throw invalidParams('params: expected processId and request');
    // A handler that never comes to an end keeps its place, on whatever connection it was asked.
    const answerable = this.#isOwn(question.processId) && this.#open < MAX_POLICY_REQUESTS;
    if (this.#handler === undefined || !answerable) return { decision: DENIED };
    this.#open++;
    try {
      return { decision: checked(await this.#handler(question, signal)) };
    } catch {
      return { decision: DENIED };
    } finally {
      this.#open--;
    }
  }
}

const DENIED: NetworkPolicyDecision = { type: 'deny', reason: 'not_allowed' };

/** What a handler without types returns may be anything. */
function checked({ type, ...rest }: NetworkPolicyDecision): NetworkPolicyDecision {
  if (type === 'allow') return { type };
  const { reason } = rest as { reason?: unknown };
  return (type === 'deny' || type === 'ask') && typeof reason === 'string' ? { type, reason } : DENIED;
}
