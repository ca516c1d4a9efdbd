import { withTimeout } from '../base/with-timeout.ts';
import { PARENT_CREATION_WAIT_MS } from './limits.ts';
import { isWithin, type NativePath } from './native-path.ts';

/** What an operation does with its paths. `make` is a write that also creates missing parent directories. */
export type Access = 'read' | 'write' | 'make';

/** A position in the order, taken when the operation arrives. */
interface Claim {
  /** Resolves when the operation may start; null if it may start now. */
  readonly turn: Promise<void> | null;
  /** Called when the operation is done, or when later operations need not wait for it any longer. */
  release(): void;
}

interface Operation {
  readonly paths: readonly NativePath[];
  readonly access: Access;
  readonly done: Promise<void>;
  /** For operations that may need the parent directories being created. Resolves after a time limit at the latest. */
  readonly parentsCreated: Promise<void> | null;
}

/**
 * Orders operations that affect each other and lets all others run concurrently. An operation waits for an earlier one if their
 * paths are equal or one contains the other, and at least one of them writes. So a client that sends a write and a read without
 * waiting reads what it wrote. Paths are compared by name: two names of one file do not wait for each other. If an operation
 * creates parent directories, later operations below the same top-level directory also wait, for a limited time. Others that create
 * their own parents do not.
 */
export class PathOrder {
  readonly #active = new Set<Operation>();

  /** Takes the next position. The caller must release every claim. */
  claim(paths: readonly NativePath[], access: Access): Claim {
    const earlier = this.#conflicting(paths, access);
    let settle = () => {};
    const done = new Promise<void>((resolve) => {
      settle = resolve;
    });
    const parentsCreated = access === 'make' ? withTimeout(done, PARENT_CREATION_WAIT_MS) : null;
    const operation = { paths, access, done, parentsCreated };
    this.#active.add(operation);
    return {
      turn: earlier.length === 0 ? null : Promise.all(earlier).then(() => {}),
      release: () => {
        this.#active.delete(operation);
        settle();
      },
    };
  }

  /**
   * Runs `work` when it may start, and calls `onWait` first if it has to wait. `work` receives a function that ends its claim
   * early, for an operation that has to wait for another process.
   */
  async run<T>(
    paths: readonly NativePath[],
    access: Access,
    onWait: () => void,
    work: (release: () => void) => Promise<T>,
  ): Promise<T> {
    const { turn, release } = this.claim(paths, access);
    try {
      if (turn !== null) {
        onWait();
        await turn;
      }
      return await work(release);
    } finally {
      release();
    }
  }

  /** Resolves when every change that is in progress now is done; null when there is none. */
  changesDone(): Promise<void> | null {
    const changes = [...this.#active].filter(({ access }) => access !== 'read');
    return changes.length === 0 ? null : Promise.all(changes.map(({ done }) => done)).then(() => {});
  }

  #conflicting(paths: readonly NativePath[], access: Access): Promise<void>[] {
    const earlier: Promise<void>[] = [];
    for (const operation of this.#active) {
      if (access === 'read' && operation.access === 'read') continue;
      if (overlap(paths, operation.paths)) earlier.push(operation.done);
      else if (access !== 'make' && operation.parentsCreated !== null) {
        if (mayShareParents(paths, operation.paths)) earlier.push(operation.parentsCreated);
      }
    }
    return earlier;
  }
}

function overlap(some: readonly NativePath[], others: readonly NativePath[]): boolean {
  return some.some((path) => others.some((other) => isWithin(path, other) || isWithin(other, path)));
}

function mayShareParents(some: readonly NativePath[], others: readonly NativePath[]): boolean {
  return some.some((path) => others.some((other) => firstName(path) === firstName(other)));
}

function firstName(path: NativePath): string {
  return path.split('/', 2)[1] ?? '';
}
