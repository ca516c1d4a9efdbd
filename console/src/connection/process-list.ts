import {
  ClientError,
  type ExecServerClient,
  type PortWatch,
  type ProcessInfo,
  type WatchedPort,
} from '../../../src/client/browser.ts';
import { describeError } from '../base/format.ts';
import { Store } from '../base/store.ts';
import { toast } from '../ui/toasts.tsx';
import type { EnvironmentConnection } from './environment-connection.ts';

export interface ProcessListState {
  /** Null until the first list has arrived. */
  readonly processes: readonly ProcessInfo[] | null;
  /** The listening ports of a process, by its reference. */
  readonly ports: ReadonlyMap<string, readonly number[]>;
  readonly error: string | null;
  /** Whether this browser may not see processes. They are not listed again: the server records each refusal. */
  readonly isRefused: boolean;
}

/** What this browser may do, as far as the console knows. The server records each refusal. */
interface ProcessListRights {
  readonly mayList: boolean;
  readonly mayWatchPorts: boolean;
  /** Whether processes of all owners are listed until the user chooses. */
  readonly everyone: boolean;
}

const INTERVAL_MS = 1000;
/** A long list takes the server and the page longer. */
const LONG_LIST = 300;
const LONG_LIST_INTERVAL_MS = 3000;

/** The processes of an environment, kept current while the page is visible. */
export class ProcessList {
  readonly state: Store<ProcessListState>;
  /** Whether processes and recordings of other owners are listed too. */
  readonly everyone: Store<boolean>;
  readonly #connection: EnvironmentConnection;
  readonly #mayWatchPorts: boolean;
  readonly #stops: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #watch: PortWatch | null = null;
  /** Whether `everyone` is a guess that no answer has confirmed. Nothing is missed where the server refuses it. */
  #isGuess: boolean;
  /** Whether the server cannot find out ports. */
  #hasNoPorts = false;
  #listing = false;
  #again = false;

  constructor(connection: EnvironmentConnection, { mayList, mayWatchPorts, everyone }: ProcessListRights) {
    this.#connection = connection;
    this.#mayWatchPorts = mayWatchPorts;
    this.everyone = new Store(everyone);
    this.#isGuess = everyone;
    this.state = new Store<ProcessListState>({
      processes: null,
      ports: new Map(),
      error: null,
      isRefused: !mayList,
    });
    const visible = () => {
      if (!document.hidden) this.refresh();
    };
    document.addEventListener('visibilitychange', visible);
    this.#stops.push(
      () => document.removeEventListener('visibilitychange', visible),
      connection.client.subscribe((client) => this.#follow(client)),
      this.everyone.subscribe(() => this.refresh()),
    );
    this.#follow(connection.client.value);
  }

  /** Lists the processes now. */
  refresh(): void {
    clearTimeout(this.#timer);
    const client = this.#connection.client.value;
    if (client === null || document.hidden || this.state.value.isRefused) return;
    if (this.#listing) this.#again = true;
    else void this.#list(client);
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const stop of this.#stops) stop();
    this.#watch?.[Symbol.asyncDispose]().catch(() => {});
  }

  #follow(client: ExecServerClient | null): void {
    this.#watch = null;
    this.#hasNoPorts = false;
    if (client === null || this.state.value.isRefused) return;
    this.refresh();
    if (!client.capabilities.tcpStreams || !this.#mayWatchPorts) return;
    client
      .watchPorts((ports) => {
        // A watch reports the ports of one owner.
        if (!this.everyone.value) this.state.set({ ...this.state.value, ports: byProcess(ports) });
      })
      .then(
        (watch) => {
          this.#watch = watch;
        },
        // A watch needs the scope `net`. Without it the ports come with the list.
        () => {},
      );
  }

  /** Whether the list must have the ports: no watch reports them. The first list has none, so that it is there sooner. */
  #listsPorts(client: ExecServerClient): boolean {
    if (!client.capabilities.tcpStreams || this.#hasNoPorts || this.state.value.processes === null)
      return false;
    return this.everyone.value || this.#watch === null;
  }

  async #list(client: ExecServerClient): Promise<void> {
    this.#listing = true;
    this.#again = false;
    const isEveryone = this.everyone.value;
    const ports = this.#listsPorts(client);
    try {
      const scope = isEveryone ? 'server' : 'owner';
      const sharing = client.capabilities.processSharing ? ({ scope } as const) : {};
      const processes = await client.processes.list({ ...sharing, ports });
      const known = this.state.value.processes ?? [];
      this.state.set({
        ...this.state.value,
        processes: newestFirst(withKnown(processes, known)),
        ...(ports && { ports: listedPorts(processes) }),
        error: null,
      });
      this.#isGuess = false;
    } catch (error) {
      const kind = error instanceof ClientError ? error.kind : null;
      const isRefused = kind === 'permissionDenied';
      if (ports && kind === 'unsupported') {
        this.#hasNoPorts = true;
        this.#again = true;
      } else if (isRefused && isEveryone) {
        if (!this.#isGuess) toast(describeError(error), { error: true });
        this.#isGuess = false;
        this.everyone.set(false);
      } else if (client.state === 'connected')
        this.state.set({ ...this.state.value, error: describeError(error), isRefused });
    } finally {
      this.#listing = false;
      const long = (this.state.value.processes?.length ?? 0) > LONG_LIST;
      const pause = this.#again ? 0 : long ? LONG_LIST_INTERVAL_MS : INTERVAL_MS;
      this.#timer = setTimeout(() => this.refresh(), pause);
    }
  }
}

/** The processes, as the objects that are known where nothing has changed, so that their rows need not render. */
function withKnown(processes: readonly ProcessInfo[], known: readonly ProcessInfo[]): readonly ProcessInfo[] {
  const byId = new Map(known.map((process) => [process.ref ?? process.processId, process]));
  return processes.map((process) => {
    const old = byId.get(process.ref ?? process.processId);
    return old !== undefined && JSON.stringify(old) === JSON.stringify(process) ? old : process;
  });
}

/** Running processes first, then the latest. */
function newestFirst(processes: readonly ProcessInfo[]): readonly ProcessInfo[] {
  const ended = (process: ProcessInfo) => (process.state === 'closed' ? 1 : 0);
  return processes.toSorted(
    (one, other) => ended(one) - ended(other) || other.startedAt.getTime() - one.startedAt.getTime(),
  );
}

function listedPorts(processes: readonly ProcessInfo[]): ReadonlyMap<string, readonly number[]> {
  return new Map(processes.map(({ ref, processId, ports }) => [ref ?? processId, ports ?? []]));
}

function byProcess(ports: readonly WatchedPort[]): ReadonlyMap<string, readonly number[]> {
  const found = new Map<string, number[]>();
  for (const { ref, port } of ports) {
    const known = found.get(ref) ?? [];
    if (!known.includes(port)) known.push(port);
    found.set(ref, known);
  }
  return found;
}
