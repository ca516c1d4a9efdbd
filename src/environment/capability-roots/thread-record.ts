import { ClientError } from '../../client/errors.ts';
import { MAX_SELECTED_ROOTS } from '../limits.ts';
import { parseSelectedRoot, type SelectedCapabilityRoot, selectRoot } from './selected-root.ts';

/**
 * The members about the selection in the first record of a thread's log. It is a type and not an interface, so that it is assignable
 * to a generic record.
 */
export type SelectionMetadata = {
  /** Absent when nothing is selected. */
  readonly selected_capability_roots?: readonly SelectedCapabilityRoot[];
};

/** A stored thread: its first record and its turns. */
export interface StoredThread<Turn> {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly turns: readonly Turn[];
}

export interface ForkOptions {
  /** How many of the newest turns are copied. Default: all. */
  readonly lastTurns?: number;
  /** Replaces the inherited selection; an empty list clears it. */
  readonly roots?: readonly SelectedCapabilityRoot[];
}

/**
 * Returns the members for a thread's first record. They contain the ids and paths of the roots and no other members of the objects.
 * The record is written once: an unreachable environment does not change the selection.
 */
export function selectionMetadata(roots: readonly SelectedCapabilityRoot[]): SelectionMetadata {
  refuseTooMany(roots);
  if (roots.length === 0) return {};
  const stored = roots.map(({ id, location }) => selectRoot({ id, ...location }));
  return { selected_capability_roots: stored };
}

/** Returns the selection of a resumed thread: `explicit` if given, else the stored one. */
export function restoreSelection(
  metadata: Readonly<Record<string, unknown>>,
  explicit?: readonly SelectedCapabilityRoot[],
): readonly SelectedCapabilityRoot[] {
  if (explicit !== undefined) return explicit.map(parseSelectedRoot);
  const { selected_capability_roots: stored = null } = metadata;
  // Threads of older versions have no selection.
  if (stored === null) return [];
  if (!Array.isArray(stored)) throw unreadable('they are not a list');
  refuseTooMany(stored);
  try {
    return stored.map(parseSelectedRoot);
  } catch (error) {
    throw error instanceof ClientError ? unreadable(error.message, error) : error;
  }
}

/**
 * Creates a thread that continues another one. The selection comes from the other's metadata, so it is inherited regardless of the
 * number of turns. The caller adds other metadata, such as a new id.
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
