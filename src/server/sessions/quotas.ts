import { FairShares, type Owner, THREE_QUARTERS } from '../../base/fair-shares.ts';
import { once } from '../../base/once.ts';
import { refused } from '../../files/errors.ts';
import { RESERVED_DESCRIPTORS, SLOTS_FOR_NEW_CLIENTS } from '../../listener/limits.ts';
import { NetworkError } from '../../network/errors.ts';
import { ProcessError } from '../../process/errors.ts';
import type { ChildIo } from '../../process/spawn/spawner.ts';
import {
  MAX_STREAM_DESCRIPTORS,
  MIN_SLOTS_FOR_NEW_CLIENTS,
  PROGRAM_NETWORK_DESCRIPTORS,
  SANDBOXED_START_DESCRIPTORS,
} from '../limits.ts';

/** What all clients of a server may use together. */
interface QuotaLimits {
  readonly maxProcesses: number;
  readonly maxFileHandles: number;
  /** File descriptors for programs, open files and HTTP requests. This limit comes from the system, not from the configuration. */
  readonly descriptors: number;
}

/** Releases the slot. Further calls have no effect. */
type Release = () => void;

/** The descriptors of a program: while it is started, and from then on. */
interface ProcessDescriptors {
  readonly start: number;
  readonly running: number;
}

/** The slot of a process. */
interface ProcessQuota {
  /** Releases the descriptors that only the start needs. */
  readonly started: Release;
  /** Counts the process for another owner from now on. Throws ProcessError when its share does not allow it. */
  transfer(owner: Owner): void;
  readonly release: Release;
}

/**
 * Counts the processes, file handles and HTTP requests of all sessions, and the file descriptors that they need, of which each session
 * has a fair share. Errors name the limit that is reached; nothing is evicted.
 */
export class Quotas {
  readonly #limits: QuotaLimits;
  /** Also used for what a sandbox needs. */
  readonly descriptors: FairShares;
  #processes = 0;
  #fileHandles = 0;

  constructor(limits: QuotaLimits) {
    this.#limits = limits;
    this.descriptors = new FairShares(
      limits.descriptors,
      'file descriptors for programs and files (RLIMIT_NOFILE)',
      () => {},
      THREE_QUARTERS,
    );
  }

  /** Takes a slot for one process and the descriptors of its start. Throws ProcessError when none is free. */
  enterProcess(owner: Owner, { start, running }: ProcessDescriptors): ProcessQuota {
    const { maxProcesses } = this.#limits;
    if (this.#processes >= maxProcesses) {
      throw new ProcessError(
        'tooManyProcesses',
        full(`${this.#processes} running processes`, 'maxProcesses'),
      );
    }
    const refusal = (why: string) => new ProcessError('tooManyProcesses', why);
    if (!this.descriptors.mayTake(owner, start)) throw refusal(this.descriptors.refusal(owner, start));
    const units = this.descriptors.take(owner, running);
    if (units === null) throw refusal(this.descriptors.refusal(owner, running));
    let holder = owner;
    const started = start > running ? this.#take(owner, start - running, refusal) : () => {};
    this.#processes++;
    const release = once(() => {
      this.#processes--;
      started();
      units.leave(holder);
    });
    const transfer = (to: Owner) => {
      if (to === holder) return;
      if (!this.descriptors.mayTake(to, running)) throw refusal(this.descriptors.refusal(to, running));
      units.join(to);
      units.leave(holder);
      holder = to;
    };
    return { started, transfer, release };
  }

  /** Takes a slot for one open file. Throws FileError when none is free. */
  enterFileHandle(owner: Owner): Release {
    const { maxFileHandles } = this.#limits;
    if (this.#fileHandles >= maxFileHandles) {
      throw refused(full(`${this.#fileHandles} open file handles`, 'maxFileHandles'));
    }
    const leave = this.#take(owner, 1, refused);
    this.#fileHandles++;
    return once(() => {
      this.#fileHandles--;
      leave();
    });
  }

  /** Takes a descriptor for the connection of one HTTP request or TCP stream. Throws NetworkError when none is free. */
  enterSocket(owner: Owner): Release {
    return this.#take(owner, 1, (why) => new NetworkError('limit', why));
  }

  #take(owner: Owner, units: number, error: (why: string) => Error): Release {
    const taken = this.descriptors.take(owner, units);
    if (taken === null) throw error(this.descriptors.refusal(owner, units));
    return once(() => taken.leave(owner));
  }
}

/** The descriptors that a program needs besides those of its placeholders. */
export function descriptorsOfProgram(
  io: ChildIo,
  uses: {
    readonly sandbox: boolean;
    readonly network: boolean;
    readonly loginShell: boolean;
    readonly recording?: boolean;
  },
): ProcessDescriptors {
  const streams =
    io.kind === 'pipe' && io.stdin === 'open' ? MAX_STREAM_DESCRIPTORS : MAX_STREAM_DESCRIPTORS - 1;
  const sandbox = uses.sandbox ? SANDBOXED_START_DESCRIPTORS : 0;
  const network = uses.network ? PROGRAM_NETWORK_DESCRIPTORS : 0;
  const loginShell = uses.loginShell ? MAX_STREAM_DESCRIPTORS - 1 + sandbox : 0;
  const running = streams + network + (uses.recording ? 1 : 0);
  return { start: running + sandbox + loginShell, running };
}

function full(what: string, limit: string): string {
  return `the server has ${what}, the configured maximum (${limit})`;
}

/** How the server divides its descriptors, so that no use of them can starve the others. */
export interface DescriptorShares {
  /** Websocket connections. */
  readonly connections: number;
  /** All connections, including those that are not websockets yet. */
  readonly sockets: number;
  /** Descriptors for programs and open files. */
  readonly work: number;
}

/**
 * Divides the descriptor limit, null where it is unknown. The server reserves some for itself. Connections get half of the rest, or
 * less if `maxConnections` needs less. Programs and files get the remainder.
 */
export function shareDescriptors(limit: number | null, maxConnections: number): DescriptorShares {
  const free = Math.max(
    (limit ?? Number.POSITIVE_INFINITY) - RESERVED_DESCRIPTORS,
    2 * MAX_STREAM_DESCRIPTORS,
  );
  const sockets = Math.floor(Math.min(maxConnections + SLOTS_FOR_NEW_CLIENTS, free / 2));
  const forNewClients = Math.max(MIN_SLOTS_FOR_NEW_CLIENTS, Math.min(SLOTS_FOR_NEW_CLIENTS, sockets >> 2));
  const connections = Math.max(1, Math.min(maxConnections, sockets - forNewClients));
  return { connections, sockets, work: free - sockets };
}
