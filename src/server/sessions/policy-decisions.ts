import type { Decision } from '../../network/proxy/admission.ts';
import { MAX_WAITING_DECISIONS, MAX_WAITING_SESSION_DECISIONS } from '../../network/proxy/limits.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import type { NetworkPolicyDecisionEvent } from '../../protocol/network.ts';

/** Where decisions are reported: the connection that is attached now, or nowhere. */
export interface DecisionSink {
  readonly attached: boolean;
  /** Whether the client is behind with reading. */
  readonly saturated: boolean;
  sendBulk(frame: Uint8Array): void;
}

/**
 * Reports what proxies decide, in order per process. While the client does not read, or is away, decisions wait; when too many do,
 * the oldest are dropped, and the first that is sent says how many there were. Nothing is lost without being counted.
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

  /** The client reads again, or is back. */
  flush(): void {
    for (const [processId, waiting] of this.#waiting) this.#send(processId, waiting, false);
  }

  /** Sends what is left of a process before its last event, whether the client reads or not; one that is away gets it later. */
  end(processId: string): void {
    const waiting = this.#waiting.get(processId);
    if (waiting !== undefined) this.#send(processId, waiting, true);
  }

  #send(processId: string, waiting: WaitingDecisions, atOnce: boolean): void {
    let sent = 0;
    for (const decision of waiting.decisions) {
      if (!this.#sink.attached || (this.#sink.saturated && !atOnce)) break;
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
  /** How many came before the first of them and were dropped. */
  dropped: number;
}
