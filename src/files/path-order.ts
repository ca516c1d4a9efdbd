import { withTimeout } from '../base/with-timeout.ts';
import { PARENT_CREATION_WAIT_MS } from './limits.ts';
import { isWithin, type NativePath } from './native-path.ts';

/** What an operation does to its paths; `make` is a write that also makes the directories above them, as far as they are missing. */
export type Access = 'read' | 'write' | 'make';

/** A place in the order, taken when the operation arrives. */
export interface Claim {
  /** Resolves when it is the operation's turn; null when that is now. */
  readonly turn: Promise<void> | null;
  /** The operation is done, or no longer minds who comes first. */
  release(): void;
}

interface Operation {
  readonly paths: readonly NativePath[];
  readonly access: Access;
  readonly done: Promise<void>;
  /** For whoever may need the directories above, which nobody knows to be there; it does not wait for ever. */
  readonly parentsMade: Promise<void> | null;
}

/**
 * Lets operations run side by side as far as nobody can tell: one that concerns the same path as an earlier one, or a path above
 * or below it, waits for that one if either of them changes something. So whoever sends a write and a read without waiting for the
 * first answer reads what was written. Paths are compared by name: two names of one file do not wait for each other. Where
 * directories are made on the way to a path, everything behind that is below the same directory of the root waits a little, too.
 */
export class PathOrder {
  readonly #active = new Set<Operation>();

  /** Takes the next place. Every claim must be released. */
  claim(paths: readonly NativePath[], access: Access): Claim {
    const earlier = this.#conflicting(paths, access);
    let settle = () => {};
    const done = new Promise<void>((resolve) => {
      settle = resolve;
    });
    const parentsMade = access === 'make' ? withTimeout(done, PARENT_CREATION_WAIT_MS) : null;
    const operation = { paths, access, done, parentsMade };
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
   * Runs `work` when its turn has come. `onWait` is called if that is not now. `work` gets a function that ends its claim early,
   * for an operation that turns out to wait for somebody outside.
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

  /** Resolves when every change that is under way now is done; null when there is none. */
  changesDone(): Promise<void> | null {
    const changes = [...this.#active].filter(({ access }) => access !== 'read');
    return changes.length === 0 ? null : Promise.all(changes.map(({ done }) => done)).then(() => {});
  }

  #conflicting(paths: readonly NativePath[], access: Access): Promise<void>[] {
    const earlier: Promise<void>[] = [];
    for (const operation of this.#active) {
      if (access === 'read' && operation.access === 'read') continue;
      if (overlap(paths, operation.paths)) earlier.push(operation.done);
      else if (operation.parentsMade !== null && mayShareParents(paths, operation.paths)) {
        earlier.push(operation.parentsMade);
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
