import type { Decision } from '../../network/proxy/admission.ts';
import { MAX_WAITING_DECISIONS, MAX_WAITING_SESSION_DECISIONS } from '../../network/proxy/limits.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import type { NetworkPolicyDecisionEvent } from '../../protocol/network.ts';

/** Receives decisions: the attached connection, if there is one. */
interface DecisionSink {
  readonly attached: boolean;
  /** Whether bulk data waits for the client to read. */
  readonly saturated: boolean;
  sendBulk(frame: Uint8Array): void;
}

/**
 * Reports the decisions of proxies to the client, in order per process. They wait while the client does not read or is detached.
 * When too many wait, the oldest are dropped, and the next one that is sent contains their number.
 */
export class PolicyDecisions {
  readonly #sink: DecisionSink;
  readonly #waiting = new Map<string, WaitingDecisions>();
  #count = 0;

  constructor(sink: DecisionSink) {
    this.#sink = sink;
  }

  report(processId: string, decision: Decision): void {
    const waiting = this.#waiting.get(processId) ?? { decisions: [], dropped: 0 };
    this.#waiting.set(processId, waiting);
    waiting.decisions.push(decision);
    this.#count++;
    if (waiting.decisions.length > MAX_WAITING_DECISIONS) this.#dropFrom(waiting);
    else if (this.#count > MAX_WAITING_SESSION_DECISIONS) this.#dropFrom(this.#longest());
    this.#send(processId, waiting, false);
  }

  /** Sends waiting decisions, when the client reads again or has reattached. */
  flush(): void {
    for (const [processId, waiting] of this.#waiting) this.#send(processId, waiting, false);
  }

  /** Sends the last decisions of a process before its last event, even if bulk data waits. A detached client receives them later. */
  end(processId: string): void {
    const waiting = this.#waiting.get(processId);
    if (waiting !== undefined) this.#send(processId, waiting, true);
  }

  #send(processId: string, waiting: WaitingDecisions, evenIfSaturated: boolean): void {
    let sent = 0;
    for (const decision of waiting.decisions) {
      if (!this.#sink.attached || (this.#sink.saturated && !evenIfSaturated)) break;
      const params: NetworkPolicyDecisionEvent = { processId, ...decision };
      if (waiting.dropped > 0) params.droppedBefore = waiting.dropped;
      waiting.dropped = 0;
      this.#sink.sendBulk(Buffer.from(encodeNotification('network/policyDecision', params)));
      sent++;
    }
    waiting.decisions.splice(0, sent);
    this.#count -= sent;
    if (waiting.decisions.length === 0) this.#waiting.delete(processId);
  }

  #dropFrom(waiting: WaitingDecisions): void {
    waiting.decisions.shift();
    waiting.dropped++;
    this.#count--;
  }

  #longest(): WaitingDecisions {
    return [...this.#waiting.values()].reduce((a, b) => (b.decisions.length > a.decisions.length ? b : a));
  }
}

interface WaitingDecisions {
  readonly decisions: Decision[];
  /** Number of decisions that were dropped before the first of these. */
  dropped: number;
}
