import { once } from '../../base/once.ts';
import { refused } from '../../files/errors.ts';
import { RESERVED_DESCRIPTORS, SLOTS_FOR_NEW_CLIENTS } from '../../listener/limits.ts';
import { ProcessError } from '../../process/errors.ts';
import { DESCRIPTORS_PER_PROCESS, MIN_SLOTS_FOR_NEW_CLIENTS } from '../limits.ts';

/** What all clients of a server may use together. */
interface QuotaLimits {
  readonly maxProcesses: number;
  readonly maxFileHandles: number;
  /** File descriptors for both. This limit comes from the system, not from the configuration. */
  readonly descriptors: number;
}

/** Releases the slot. Further calls have no effect. */
type Release = () => void;

/** Counts the processes and file handles of all clients. Errors name the limit that is reached; nothing is evicted. */
export class Quotas {
  readonly #limits: QuotaLimits;
  #processes = 0;
  #fileHandles = 0;

  constructor(limits: QuotaLimits) {
    this.#limits = limits;
  }

  /** Takes a slot for one running process. Throws ProcessError when none is free. */
  enterProcess(): Release {
    const { maxProcesses } = this.#limits;
    if (this.#processes >= maxProcesses) {
      throw new ProcessError(
        'tooManyProcesses',
        full(`${this.#processes} running processes`, 'maxProcesses'),
      );
    }
    if (this.#freeDescriptors < DESCRIPTORS_PER_PROCESS) {
      throw new ProcessError('tooManyProcesses', this.#outOfDescriptors());
    }
    this.#processes++;
    return once(() => this.#processes--);
  }

  /** Takes a slot for one open file. Throws FileError when none is free. */
  enterFileHandle(): Release {
    const { maxFileHandles } = this.#limits;
    if (this.#fileHandles >= maxFileHandles) {
      throw refused(full(`${this.#fileHandles} open file handles`, 'maxFileHandles'));
    }
    if (this.#freeDescriptors < 1) throw refused(this.#outOfDescriptors());
    this.#fileHandles++;
    return once(() => this.#fileHandles--);
  }

  get #freeDescriptors(): number {
    return this.#limits.descriptors - this.#processes * DESCRIPTORS_PER_PROCESS - this.#fileHandles;
  }

  #outOfDescriptors(): string {
    return (
      `the server has ${this.#processes} running processes and ${this.#fileHandles} open file handles, ` +
      'as many as its limit of open files allows (RLIMIT_NOFILE)'
    );
  }
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
    2 * DESCRIPTORS_PER_PROCESS,
  );
  const sockets = Math.floor(Math.min(maxConnections + SLOTS_FOR_NEW_CLIENTS, free / 2));
  const forNewClients = Math.max(MIN_SLOTS_FOR_NEW_CLIENTS, Math.min(SLOTS_FOR_NEW_CLIENTS, sockets >> 2));
  const connections = Math.max(1, Math.min(maxConnections, sockets - forNewClients));
  return { connections, sockets, work: free - sockets };
}
