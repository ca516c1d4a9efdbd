import type { Environment } from '../environment.ts';
import type { SelectedCapabilityRoot } from './selected-root.ts';
import type { ResolvedRoot } from './step-resolution.ts';

export interface InspectedRoots<E> {
  readonly roots: readonly SelectedCapabilityRoot[];
  /** A thread's environments in its newest step. Roots of environments that are starting are skipped. */
  readonly captured?: ReadonlyMap<string, E | null>;
  readonly registry: { get(id: string): E | null };
}

export interface RootInspection<E> {
  readonly roots: readonly ResolvedRoot<E>[];
  /** Messages for users: which roots are unavailable, and why. */
  readonly warnings: readonly string[];
}

/** Returns the roots that can be listed now, for catalogs. It starts nothing and waits for nothing. */
export function inspectRoots<E extends Pick<Environment, 'readiness'>>({
  roots,
  captured = new Map(),
  registry,
}: InspectedRoots<E>): RootInspection<E> {
  const found: ResolvedRoot<E>[] = [];
  const warnings = new Set<string>();
  for (const root of roots) {
    const { environmentId } = root.location;
    const handle = captured.get(environmentId);
    const environment = handle === undefined ? registry.get(environmentId) : handle;
    if (environment === null) {
      if (handle === undefined) {
        warnings.add(
          `capability root '${root.id}' needs environment '${environmentId}', which does not exist`,
        );
      }
      continue;
    }
    const { readiness } = environment;
    if (readiness?.ready) found.push({ root, environment });
    else if (readiness !== null) {
      warnings.add(`environment '${environmentId}' has failed: ${readiness.error.message}`);
    }
  }
  return { roots: found, warnings: [...warnings] };
}
