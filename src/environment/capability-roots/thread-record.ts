import { ClientError } from '../../client/errors.ts';
import { MAX_SELECTED_ROOTS } from '../limits.ts';
import { parseSelectedRoot, type SelectedCapabilityRoot, selectRoot } from './selected-root.ts';

/**
 * What the first record of a thread's log says about the selection, beside whatever else it says. As a type, and not an interface, it can be
 * given where any record is taken.
 */
export type SelectionMetadata = {
  /** Left out when nothing is selected. */
  readonly selected_capability_roots?: readonly SelectedCapabilityRoot[];
};

/** A thread as it is stored: what was written first, and what happened since. */
export interface StoredThread<Turn> {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly turns: readonly Turn[];
}

export interface ForkOptions {
  /** Takes over only so many of the newest turns; all of them by default. */
  readonly lastTurns?: number;
  /** Replaces the inherited selection, even by nothing. */
  readonly roots?: readonly SelectedCapabilityRoot[];
}

/**
 * The members to write into a thread's first record. They hold the ids and paths of the roots and nothing else, whatever the
 * objects carry besides. It is written once: that an environment cannot be reached changes nothing about what was selected.
 */
export function selectionMetadata(roots: readonly SelectedCapabilityRoot[]): SelectionMetadata {
  refuseTooMany(roots);
  if (roots.length === 0) return {};
  const stored = roots.map(({ id, location }) => selectRoot({ id, ...location }));
  return { selected_capability_roots: stored };
}

/** The selection of a thread that is started again: `explicit` when there is one, else what was written. */
export function restoreSelection(
  metadata: Readonly<Record<string, unknown>>,
  explicit?: readonly SelectedCapabilityRoot[],
): readonly SelectedCapabilityRoot[] {
  if (explicit !== undefined) return explicit.map(parseSelectedRoot);
  const { selected_capability_roots: stored = null } = metadata;
  // Threads that were written before there were selections have none.
  if (stored === null) return [];
  if (!Array.isArray(stored)) throw unreadable('they are no list');
  refuseTooMany(stored);
  try {
    return stored.map(parseSelectedRoot);
  } catch (error) {
    throw error instanceof ClientError ? unreadable(error.message, error) : error;
  }
}

/**
 * A new thread that goes on from another one. The selection comes from the other's metadata, so it is inherited however few turns
 * are. What else belongs into the metadata, such as a new id, is the caller's to add.
 */
export function forkThread<Turn>(
  parent: StoredThread<Turn>,
  { lastTurns, roots }: ForkOptions = {},
): StoredThread<Turn> & { readonly metadata: SelectionMetadata } {
  const first = lastTurns === undefined ? 0 : Math.max(0, parent.turns.length - lastTurns);
  return {
    metadata: { ...selectionMetadata(restoreSelection(parent.metadata, roots)) },
    turns: parent.turns.slice(first),
  };
}

function refuseTooMany({ length }: readonly unknown[]): void {
  if (length <= MAX_SELECTED_ROOTS) return;
  throw new ClientError('invalidInput', `a thread cannot select ${length} capability roots`, {
    hint: `select at most ${MAX_SELECTED_ROOTS}`,
  });
}

function unreadable(why: string, cause?: unknown): ClientError {
  return new ClientError('invalidData', `the thread's selected capability roots cannot be read: ${why}`, {
    cause,
  });
}
