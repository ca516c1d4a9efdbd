import type { ClosedProcessKeeper, KeptProcess } from '../../process/closed-processes.ts';
import type { ExecServerConfig } from '../config/config.ts';

type DetachedLimits = Pick<
  ExecServerConfig,
  'maxDetachedOutputBytesPerSession' | 'maxDetachedOutputBytes' | 'maxDetachedProcesses'
>;

/**
 * The closed processes that sessions keep beyond their retention time, with limits for each session and for all of them. At a limit of
 * one session its oldest process is dropped. At a limit of the server it is the oldest process of the client that keeps the most, so no
 * client can displace the results of others. All processes have the same retention time, so the oldest is the one that was kept first.
 */
export class DetachedProcesses {
  readonly #limits: DetachedLimits;
  /** The clients that keep anything. */
  readonly #clients = new Map<string, Client>();
  readonly #total: Total = { processes: 0, bytes: 0 };

  constructor(limits: DetachedLimits) {
    this.#limits = limits;
  }

  /** What is kept now, for metrics. */
  get total(): Readonly<Total> {
    return this.#total;
  }

  /** The keeper of a session. `client` identifies the client that created it. */
  keeperFor(client: string): ClosedProcessKeeper {
    const session: Session = { client, kept: new KeptQueue(), bytes: 0 };
    return {
      keep: (process) => this.#keep(session, process),
      release: (process) => this.#release(session, process),
    };
  }

  #keep(session: Session, process: KeptProcess): void {
    const client = this.#clients.get(session.client) ?? { kept: new KeptQueue(), processes: 0, bytes: 0 };
    this.#clients.set(session.client, client);
    session.kept.add(process);
    client.kept.add(process);
    session.bytes += process.retainedBytes;
    for (const total of [client, this.#total]) {
      total.processes++;
      total.bytes += process.retainedBytes;
    }
    this.#enforceLimits(session);
  }

  #release(session: Session, process: KeptProcess): void {
    if (!session.kept.delete(process)) return;
    const client = this.#clients.get(session.client)!;
    client.kept.delete(process);
    session.bytes -= process.retainedBytes;
    for (const total of [client, this.#total]) {
      total.processes--;
      total.bytes -= process.retainedBytes;
    }
    if (client.processes === 0) this.#clients.delete(session.client);
  }

  #enforceLimits(session: Session): void {
    const { maxDetachedOutputBytesPerSession, maxDetachedOutputBytes, maxDetachedProcesses } = this.#limits;
    while (session.bytes > maxDetachedOutputBytesPerSession) {
      session.kept.first.drop('maxDetachedOutputBytesPerSession');
    }
    while (this.#total.bytes > maxDetachedOutputBytes) {
      this.#largest('bytes').kept.first.drop('maxDetachedOutputBytes');
    }
    while (this.#total.processes > maxDetachedProcesses) {
      this.#largest('processes').kept.first.drop('maxDetachedProcesses');
    }
  }

  /** The client that keeps the most; there is at least one. */
  #largest(size: keyof Total): Client {
    let largest: Client | null = null;
    for (const client of this.#clients.values()) {
      if (largest === null || client[size] > largest[size]) largest = client;
    }
    return largest!;
  }
}

interface Total {
  processes: number;
  bytes: number;
}

interface Client extends Total {
  readonly kept: KeptQueue;
}

interface Session {
  readonly client: string;
  readonly kept: KeptQueue;
  bytes: number;
}

/**
 * Processes in the order in which they were kept. A Set alone would be slow: to find its first member it passes over all that were deleted
 * since it last grew.
 */
class KeptQueue {
  readonly #members = new Set<KeptProcess>();
  /** Also has processes that were deleted. */
  #ordered: KeptProcess[] = [];
  /** None before this index is a member. */
  #from = 0;

  add(process: KeptProcess): void {
    this.#members.add(process);
    this.#ordered.push(process);
  }

  /** Returns whether the process was a member. */
  delete(process: KeptProcess): boolean {
    if (!this.#members.delete(process)) return false;
    if (this.#ordered.length > 2 * this.#members.size + MIN_QUEUE_SLOTS) {
      this.#ordered = this.#ordered.filter((each) => this.#members.has(each));
      this.#from = 0;
    }
    return true;
  }

  /** The process that was kept first; there must be one. */
  get first(): KeptProcess {
    while (!this.#members.has(this.#ordered[this.#from]!)) this.#from++;
    return this.#ordered[this.#from]!;
  }
}

/** Queues up to this length are not compacted. */
const MIN_QUEUE_SLOTS = 32;
