import type { NetworkPolicyDecisionEvent } from '../../environment/index.ts';
import { MAX_NETWORK_EVENTS, MAX_REPORTED_DENIALS } from '../limits.ts';

/** A host that a program was not allowed to reach. */
export interface NetworkDenial {
  readonly host: string;
  readonly port: number;
  /** The reason of the policy, or a code of the proxy. */
  readonly reason: string;
}

/** Denials for a model: the first ones, each once, and how many more there were. */
export interface NetworkDenials {
  readonly denials: readonly NetworkDenial[];
  readonly omitted: number;
}

/** Keeps the decisions about a program's network for the events and for the next call. Its memory is bounded. */
export class NetworkDecisions {
  #sink: ((decision: NetworkPolicyDecisionEvent) => void) | null = null;
  #held: NetworkPolicyDecisionEvent[] = [];
  #events = 0;
  #denials = new Map<string, NetworkDenial>();
  #omitted = 0;

  take(decision: NetworkPolicyDecisionEvent): void {
    if (decision.decision !== 'allow') this.#addDenial(decision);
    if (this.#events === MAX_NETWORK_EVENTS) return;
    this.#events++;
    if (this.#sink === null) this.#held.push(decision);
    else this.#sink(decision);
  }

  /** Passes all decisions to the sink, from the first on, up to the limit of events. */
  streamTo(sink: (decision: NetworkPolicyDecisionEvent) => void): void {
    this.#sink = sink;
    for (const decision of this.#held.splice(0)) sink(decision);
  }

  /** Returns the denials that no call has returned yet. */
  takeDenials(): NetworkDenials {
    const taken = { denials: [...this.#denials.values()], omitted: this.#omitted };
    this.#denials = new Map();
    this.#omitted = 0;
    return taken;
  }

  #addDenial({ host, port, reason }: NetworkPolicyDecisionEvent): void {
    const key = `${host}:${port} ${reason}`;
    if (this.#denials.has(key)) return;
    if (this.#denials.size < MAX_REPORTED_DENIALS) this.#denials.set(key, { host, port, reason });
    else this.#omitted++;
  }
}
