import { reportListenerError } from '../../base/listeners.ts';
import { invalidParams } from '../../protocol/errors.ts';
import type { NetworkPolicyDecision, NetworkPolicyRequest } from '../../protocol/network.ts';
import { MAX_POLICY_REQUESTS } from '../limits.ts';
import { readPolicyRequest } from './server-messages.ts';

/** A program's request to reach a host that no pattern of its proxy allows. */
export interface PolicyRequest extends NetworkPolicyRequest {
  readonly processId: string;
}

/**
 * Decides one policy request. The signal aborts when the decision is no longer needed. A handler that throws denies
 * the request.
 */
export type PolicyHandler = (
  request: PolicyRequest,
  signal: AbortSignal,
) => NetworkPolicyDecision | Promise<NetworkPolicyDecision>;

/** Handles the server's policy requests with the user's handlers. Every failure results in a denial. */
export class PolicyRequests {
  readonly #handlerOf: (processId: string) => PolicyHandler | undefined;
  #open = 0;

  /**
   * `handlerOf` returns the handler of a process that this client started. Requests without a handler are denied,
   * and so are those of other processes in the session.
   */
  constructor(handlerOf: (processId: string) => PolicyHandler | undefined) {
    this.#handlerOf = handlerOf;
  }

  /** Returns the result of `network/policyRequest`. Rejects with RpcError when the params are invalid. */
  async handle(params: unknown, signal: AbortSignal): Promise<{ readonly decision: NetworkPolicyDecision }> {
    const request = readPolicyRequest(params);
    if (request === null) throw invalidParams('params: expected processId and request');
    // A handler that never settles keeps its slot, even after its connection ended.
    const handler = this.#open < MAX_POLICY_REQUESTS ? this.#handlerOf(request.processId) : undefined;
    if (handler === undefined) return { decision: DENIED };
    this.#open++;
    try {
      return { decision: checked(await handler(request, signal)) };
    } catch (error) {
      // The program reaches no host, and its owner should learn why.
      reportListenerError('onNetworkPolicyRequest', error);
      return { decision: DENIED };
    } finally {
      this.#open--;
    }
  }
}

const DENIED: NetworkPolicyDecision = { type: 'deny', reason: 'not_allowed' };

/** Validates the handler's result, which may come from untyped code. */
function checked({ type, ...rest }: NetworkPolicyDecision): NetworkPolicyDecision {
  if (type === 'allow') return { type };
  const { reason } = rest as { reason?: unknown };
  return (type === 'deny' || type === 'ask') && typeof reason === 'string' ? { type, reason } : DENIED;
}
