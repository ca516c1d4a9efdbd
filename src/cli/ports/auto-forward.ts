import { ClientError } from '../../client/errors.ts';
import { type ForwardClient, PortForward } from '../../client/tcp/port-forward.ts';
import type { WatchedPort } from '../../client/tcp/port-watch.ts';
import type { ForwardReport, ListeningPort } from './forward-report.ts';
import { LOOPBACK, remoteText } from './forward-spec.ts';
import { MAX_AUTO_PORTS } from './limits.ts';

/** A port of a program. `forward` is null where it cannot be forwarded. */
interface Entry {
  readonly forward: PortForward | null;
  readonly listening: ListeningPort;
  /** Whether the local port differs from the remote one. */
  readonly isOther: boolean;
}

/** Forwards the ports that programs listen on, for as long as they do. */
export class AutoForward {
  readonly #client: ForwardClient;
  readonly #report: ForwardReport;
  readonly #entries = new Map<string, Entry>();
  /** The last report that is not applied yet. */
  #waiting: readonly WatchedPort[] | null = null;
  #isApplying = false;
  #isFull = false;

  constructor(client: ForwardClient, report: ForwardReport) {
    this.#client = client;
    this.#report = report;
  }

  /** How many connections are being forwarded. */
  get openStreams(): number {
    return [...this.#entries.values()].reduce((sum, { forward }) => sum + (forward?.openStreams ?? 0), 0);
  }

  /** Applies a report of all ports. A newer report replaces one that waits. */
  update(ports: readonly WatchedPort[]): void {
    this.#waiting = ports;
    if (!this.#isApplying) void this.#applyAll();
  }

  async #applyAll(): Promise<void> {
    this.#isApplying = true;
    while (this.#waiting !== null) {
      const ports = this.#waiting;
      this.#waiting = null;
      await this.#apply(ports);
    }
    this.#isApplying = false;
  }

  async #apply(ports: readonly WatchedPort[]): Promise<void> {
    const wanted = programPorts(ports);
    // First, so that a program that was started again gets the same local port.
    for (const [key, { forward, listening }] of this.#entries) {
      if (wanted.has(key)) continue;
      this.#entries.delete(key);
      // A program may close its port and go on with the connections that it has.
      forward?.stop();
      if (forward !== null) this.#report.closed(listening);
    }
    for (const [key, port] of wanted) {
      if (this.#entries.has(key) || this.#isOwn(port)) continue;
      if (this.#entries.size >= MAX_AUTO_PORTS) {
        this.#reportFull();
        return;
      }
      const entry = await this.#open(port);
      if (entry !== null) this.#entries.set(key, entry);
    }
  }

  /**
   * Whether a port is one that this object listens on. That happens where this command itself is a program of the server; on the same
   * machine the local port always differs, because the program has taken the remote one.
   */
  #isOwn({ port }: WatchedPort): boolean {
    return [...this.#entries.values()].some(({ listening, isOther }) => isOther && listening.port === port);
  }

  async #open({ port, address, ref, reachable }: WatchedPort): Promise<Entry | null> {
    const remote = { host: targetOf(address), port };
    const target = remoteText(remote);
    if (!reachable) {
      this.#report.failed(
        target,
        new ClientError('unsupported', 'it cannot be forwarded', {
          hint: 'the program has a network of its own, or listens on an address that is not the loopback',
        }),
      );
      return {
        forward: null,
        listening: { bind: LOOPBACK, port, remote, ref, note: null },
        isOther: false,
      };
    }
    const options = {
      ...remote,
      localHost: LOOPBACK,
      onError: (error: Error) => this.#report.failed(target, error),
    };
    try {
      const same = await PortForward.open(this.#client, { ...options, localPort: port }).catch(taken);
      const forward = same ?? (await PortForward.open(this.#client, options));
      const note = same === null ? `port ${port} of this machine is in use or privileged` : null;
      const listening = { bind: LOOPBACK, port: forward.port, remote, ref, note };
      this.#report.listening(listening);
      return { forward, listening, isOther: same === null };
    } catch (error) {
      this.#report.failed(target, error as Error);
      return null;
    }
  }

  #reportFull(): void {
    if (this.#isFull) return;
    this.#isFull = true;
    this.#report.failed(
      null,
      new Error(`programs listen on more than ${MAX_AUTO_PORTS} ports; the others are not forwarded`),
    );
  }
}

/** The ports by process and number, in order. A program that listens on several addresses gets one of them, a reachable one if possible. */
function programPorts(ports: readonly WatchedPort[]): ReadonlyMap<string, WatchedPort> {
  const found = new Map<string, WatchedPort>();
  for (const port of [...ports].sort((a, b) => a.port - b.port)) {
    const key = `${port.port} ${port.ref}`;
    if (!found.get(key)?.reachable) found.set(key, port);
  }
  return found;
}

/** The host through which the server reaches a program that listens on an address. `localhost` is both loopback addresses. */
function targetOf(address: string): string {
  if (address === LOOPBACK) return address;
  return address === '0.0.0.0' || address === '::' ? 'localhost' : address;
}

/** Null for a local port that is taken or privileged. */
function taken(error: ClientError): null {
  const { code } = (error.cause ?? {}) as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE' || code === 'EACCES') return null;
  throw error;
}
