import { once } from '../../base/once.ts';
import { refused } from '../../files/errors.ts';
import { ProcessError } from '../../process/errors.ts';
import { DESCRIPTORS_PER_PROCESS } from '../limits.ts';

/** What all clients of a server may have at once. */
export interface QuotaLimits {
  readonly maxProcesses: number;
  readonly maxFileHandles: number;
  /** Descriptors for both; a limit of the system rather than of the configuration. */
  readonly descriptors: number;
}

/** Gives a place back. Calling it again changes nothing. */
export type Leave = () => void;

/** Counts what the clients of a server have together. Who finds it full is told which limit that is; nobody loses what he has. */
export class Quotas {
  readonly #limits: QuotaLimits;
  #processes = 0;
  #fileHandles = 0;

  constructor(limits: QuotaLimits) {
    this.#limits = limits;
  }

  /** A place for one running process. Throws ProcessError when there is none. */
  enterProcess(): Leave {
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

  /** A place for one open file. Throws FileError when there is none. */
  enterFileHandle(): Leave {
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
      'as many as the open files that the system allows it (RLIMIT_NOFILE)'
    );
  }
}

function full(what: string, limit: string): string {
  return `the server has ${what}, the configured maximum (${limit})`;
}
