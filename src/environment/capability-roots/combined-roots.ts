import { MAX_ATTACHMENT_ROOTS } from '../limits.ts';
import { type SelectedCapabilityRoot, sameLocation } from './selected-root.ts';

/** The roots of an environment that is attached to a thread. */
export interface AttachmentRoots {
  /** Whether the thread or the owner configures the environment. Roots of a thread-configured environment may refresh those that the thread selected. */
  readonly configuredBy: 'thread' | 'owner';
  readonly roots: readonly SelectedCapabilityRoot[];
}

/**
 * Returns all roots of a step: the thread's, then those of its attachments, in order. The first root with an id wins; `warn` is
 * called when another root with that id differs from it.
 */
export function combineRoots(
  threadRoots: readonly SelectedCapabilityRoot[],
  attachments: readonly AttachmentRoots[],
  warn: (message: string) => void,
): readonly SelectedCapabilityRoot[] {
  const refreshed = threadRoots.map((root) => refresh(root, attachments));
  const combined = new Map<string, SelectedCapabilityRoot>();
  for (const root of refreshed) add(combined, root, warn);
  const limit = combined.size + MAX_ATTACHMENT_ROOTS;
  for (const root of attachments.flatMap(({ roots }) => roots)) {
    if (combined.size < limit || combined.has(root.id)) add(combined, root, warn);
    else
      warn(
        `capability root '${root.id}' is left out: there are more than ${MAX_ATTACHMENT_ROOTS} attached ones`,
      );
  }
  return [...combined.values()];
}

function refresh(
  root: SelectedCapabilityRoot,
  attachments: readonly AttachmentRoots[],
): SelectedCapabilityRoot {
  const reported = attachments
    .filter(({ configuredBy }) => configuredBy === 'thread')
    .flatMap(({ roots }) => roots)
    .find(({ id, location }) => id === root.id && location.environmentId === root.location.environmentId);
  return reported ?? root;
}

function add(
  combined: Map<string, SelectedCapabilityRoot>,
  root: SelectedCapabilityRoot,
  warn: (message: string) => void,
): void {
  const first = combined.get(root.id);
  if (first === undefined) combined.set(root.id, root);
  else if (!sameLocation(first, root)) {
    warn(`capability root '${root.id}' is selected at two locations; the first one is used`);
  }
}
