import type { ClosedProcessKeeper, KeptProcess } from '../../process/closed-processes.ts';
import type { ExecServerConfig } from '../config/config.ts';

type DetachedLimits = Pick<
  ExecServerConfig,
  'maxDetachedOutputBytesPerSession' | 'maxDetachedOutputBytes' | 'maxDetachedProcesses'
>;

/**
 * The closed processes that detached sessions keep beyond their retention time, with limits for each session and for all of them.
 * At a limit of one session its oldest process is dropped. At a limit of the server it is the oldest process of the client that keeps
 * the most, so no client can displace the results of others.
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
    const session: Session = { client, kept: new Set(), bytes: 0 };
    return {
      keep: (process) => this.#keep(session, process),
      release: (process) => this.#release(session, process),
    };
  }

  #keep(session: Session, process: KeptProcess): void {
    const client = this.#clients.get(session.client) ?? { sessions: new Set(), processes: 0, bytes: 0 };
    this.#clients.set(session.client, client);
    client.sessions.add(session);
    session.kept.add(process);
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
    session.bytes -= process.retainedBytes;
    for (const total of [client, this.#total]) {
      total.processes--;
      total.bytes -= process.retainedBytes;
    }
    if (session.kept.size === 0) client.sessions.delete(session);
    if (client.processes === 0) this.#clients.delete(session.client);
  }

  #enforceLimits(session: Session): void {
    const { maxDetachedOutputBytesPerSession, maxDetachedOutputBytes, maxDetachedProcesses } = this.#limits;
    while (session.bytes > maxDetachedOutputBytesPerSession) {
      oldestOf([session]).drop('maxDetachedOutputBytesPerSession');
    }
    while (this.#total.bytes > maxDetachedOutputBytes) {
      oldestOf(this.#largest('bytes').sessions).drop('maxDetachedOutputBytes');
    }
    while (this.#total.processes > maxDetachedProcesses) {
      oldestOf(this.#largest('processes').sessions).drop('maxDetachedProcesses');
    }
  }

  #largest(size: keyof Total): Client {
    return [...this.#clients.values()].reduce((a, b) => (b[size] > a[size] ? b : a));
  }
}

interface Total {
  processes: number;
  bytes: number;
}

interface Client extends Total {
  /** Those that keep anything. */
  readonly sessions: Set<Session>;
}

interface Session {
  readonly client: string;
  /** The longest closed first. */
  readonly kept: Set<KeptProcess>;
  bytes: number;
}

/** The process that closed first. Each session keeps at least one. */
function oldestOf(sessions: Iterable<Session>): KeptProcess {
  const first = [...sessions].map(({ kept }) => kept.values().next().value!);
  return first.reduce((a, b) => (b.closedAtMs < a.closedAtMs ? b : a));
}
