import type { CallOptions } from '../../client/backend.ts';
import { ClientError } from '../../client/errors.ts';
import type { Environment } from '../environment.ts';
import { type AttachmentRoots, combineRoots } from './combined-roots.ts';
import type { SelectedCapabilityRoot } from './selected-root.ts';

/** What resolution needs of an environment. */
export type StartableEnvironment = Pick<
  Environment,
  'id' | 'startupFinished' | 'startForUse' | 'waitUntilReady'
>;

/** A root together with the handle that everything in this step uses for it, whatever has the id by now. */
export interface ResolvedRoot<E> {
  readonly root: SelectedCapabilityRoot;
  readonly environment: E;
}

export interface StepRoots<E> {
  readonly threadRoots: readonly SelectedCapabilityRoot[];
  /** In the order in which the environments were selected. */
  readonly attachments?: readonly AttachmentRoots[];
  /** The step's environments: the handle of a ready one, null for one that is starting. Failed ones are not in it. */
  readonly captured: ReadonlyMap<string, E | null>;
  /** Finds environments outside the step. */
  readonly registry: { get(id: string): E | null };
  /** Hears of roots that contradict each other or are too many. */
  readonly warn?: (message: string) => void;
}

/**
 * The roots that one step can use, in order. Roots of environments that are starting, missing or failed are left out of this step
 * and stay selected. An environment outside the step that nobody has used yet is started for a later step. No file is looked at.
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

/** The environment if it can be used now. One that failed before may have another try. */
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
