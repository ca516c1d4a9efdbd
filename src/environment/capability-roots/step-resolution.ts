import type { CallOptions } from '../../client/backend.ts';
import { ClientError } from '../../client/errors.ts';
import type { Environment } from '../environment.ts';
import { type AttachmentRoots, combineRoots } from './combined-roots.ts';
import type { SelectedCapabilityRoot } from './selected-root.ts';

/** The part of an environment that the resolution uses. */
export type StartableEnvironment = Pick<
  Environment,
  'id' | 'startupFinished' | 'startForUse' | 'waitUntilReady'
>;

/** A root and the handle that this step uses for it, even if another handle has the id now. */
export interface ResolvedRoot<E> {
  readonly root: SelectedCapabilityRoot;
  readonly environment: E;
}

export interface StepRoots<E> {
  readonly threadRoots: readonly SelectedCapabilityRoot[];
  /** In the order in which the environments were selected. */
  readonly attachments?: readonly AttachmentRoots[];
  /** The step's environments: the handle of a ready one, null for one that is starting. Failed ones have no entry. */
  readonly captured: ReadonlyMap<string, E | null>;
  /** Finds environments outside the step. */
  readonly registry: { get(id: string): E | null };
  /** Called for contradicting roots and for too many roots. */
  readonly warn?: (message: string) => void;
}

/**
 * Returns the roots that one step can use, in order. Roots of environments that are starting, missing or failed are skipped in this
 * step and stay selected. An unused environment outside the step is started for a later step. No file is read.
 */
export async function resolveStepRoots<E extends StartableEnvironment>(
  { threadRoots, attachments = [], captured, registry, warn = () => {} }: StepRoots<E>,
  options?: CallOptions,
): Promise<readonly ResolvedRoot<E>[]> {
  const roots = combineRoots(threadRoots, attachments, warn);
  const ids = new Set(roots.map(({ location }) => location.environmentId));
  const usable = new Map<string, E>();
  await Promise.all(
    [...ids].map(async (id) => {
      const environment = captured.has(id) ? captured.get(id) : await readyOutside(registry.get(id), options);
      if (environment) usable.set(id, environment);
    }),
  );
  const resolved = roots.flatMap((root) => {
    const environment = usable.get(root.location.environmentId);
    return environment === undefined ? [] : [Object.freeze({ root, environment })];
  });
  return Object.freeze(resolved);
}

/** Returns the environment if it can be used now. A failed environment may be retried. */
async function readyOutside<E extends StartableEnvironment>(
  environment: E | null,
  options: CallOptions | undefined,
): Promise<E | null> {
  if (environment === null) return null;
  if (!environment.startupFinished) {
    environment.startForUse();
    return null;
  }
  try {
    await environment.waitUntilReady(options);
    return environment;
  } catch (error) {
    if (!(error instanceof ClientError) || error.kind === 'aborted') throw error;
    return null;
  }
}
