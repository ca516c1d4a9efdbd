import type { CallOptions } from '../../client/backend.ts';
import { Deadline } from '../../client/connection/call-limit.ts';
import { DISCOVERY_BATCH_ROOTS, MAX_CACHED_ROOTS } from '../limits.ts';
import { type DiscoverableEnvironment, type RootOutcome, requestDiscovery } from './discovery-request.ts';
import type { SelectedCapabilityRoot } from './selected-root.ts';
import type { ResolvedRoot } from './step-resolution.ts';

/** The rules for reading the files of a step's roots. */
export interface DiscoveryPolicy {
  /** The sandbox of each environment, as on the wire. An environment without an entry has none. */
  readonly sandboxes?: ReadonlyMap<string, unknown>;
  /** Whether reading is restricted. Roots of environments without a sandbox are then skipped. */
  readonly restrictedReads?: boolean;
}

/**
 * The capabilities of a root in this step, and the step's handle for using them. `discovered` stays the same object while it is
 * cached, so callers can cache derived data by it.
 */
export type StepDiscovery<E> = ResolvedRoot<E> & RootOutcome;

interface Entry {
  readonly sandbox: string;
  readonly outcome: RootOutcome;
}

/**
 * Caches what one thread discovered at its roots, by environment id, root id and path. Every handle with the environment's id
 * leads to the same files, so a new handle does not invalidate an entry. A connection failure does, at the next step.
 */
export class DiscoveryCache {
  /** In least recently used order. */
  readonly #entries = new Map<string, Entry>();
  /** Resolves when no discovery is under way. Never rejects. */
  #idle: Promise<unknown> = Promise.resolve();
  #recovered = false;

  /**
   * Returns the capabilities of a step's roots, in their order. Roots that are not cached are discovered through the step's own
   * handles. The result never changes afterwards. Rejects only when the caller aborts; requests under way may still fill the cache.
   */
  discover<E extends DiscoverableEnvironment>(
    roots: readonly ResolvedRoot<E>[],
    policy: DiscoveryPolicy = {},
    options: CallOptions = {},
  ): Promise<readonly StepDiscovery<E>[]> {
    const deadline = new Deadline(options);
    // One at a time: two steps that start together must not both discover the same root.
    const step = this.#idle.then(() => {
      deadline.check(WHAT);
      return this.#discover(roots, policy, options.signal);
    });
    this.#idle = step.catch(() => {});
    return deadline.wait(WHAT, step);
  }

  /** Returns what an earlier step discovered at a root; null when nothing is cached. Reads nothing. */
  peek(root: SelectedCapabilityRoot): RootOutcome | null {
    return this.#entries.get(keyOf(root))?.outcome ?? null;
  }

  /** Returns whether discovery of a previously failed root has succeeded since the last call. */
  takeRecovered(): boolean {
    const recovered = this.#recovered;
    this.#recovered = false;
    return recovered;
  }

  async #discover<E extends DiscoverableEnvironment>(
    roots: readonly ResolvedRoot<E>[],
    { sandboxes = new Map(), restrictedReads = false }: DiscoveryPolicy,
    signal: AbortSignal | undefined,
  ): Promise<readonly StepDiscovery<E>[]> {
    const wanted = roots
      .map((resolved) => ({ ...resolved, sandbox: sandboxes.get(resolved.environment.id) ?? null }))
      .filter(({ sandbox }) => !restrictedReads || sandbox !== null);
    const missing = wanted.filter(({ root, sandbox }) => !this.#isKnown(root, sandbox));
    const environments = [...new Set(missing.map(({ environment }) => environment))];
    await Promise.all(
      environments.map((environment) => {
        const group = missing.filter((each) => each.environment === environment);
        return this.#lookAt(environment, group, signal);
      }),
    );
    const found = wanted.map(({ root, environment }) =>
      Object.freeze({ root, environment, ...this.#use(root) }),
    );
    this.#evict();
    return Object.freeze(found);
  }

  #isKnown(root: SelectedCapabilityRoot, sandbox: unknown): boolean {
    const entry = this.#entries.get(keyOf(root));
    return entry !== undefined && entry.sandbox === spell(sandbox) && !entry.outcome.error?.retryable;
  }

  async #lookAt(
    environment: DiscoverableEnvironment,
    group: readonly { readonly root: SelectedCapabilityRoot; readonly sandbox: unknown }[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    for (let start = 0; start < group.length; start += DISCOVERY_BATCH_ROOTS) {
      const batch = group.slice(start, start + DISCOVERY_BATCH_ROOTS);
      const outcomes = await requestDiscovery(environment, batch, signal);
      for (const [index, { root, sandbox }] of batch.entries()) {
        this.#store(root, { sandbox: spell(sandbox), outcome: deepFreeze(outcomes[index]!) });
      }
    }
  }

  #store(root: SelectedCapabilityRoot, entry: Entry): void {
    const key = keyOf(root);
    const previous = this.#entries.get(key)?.outcome;
    if (previous?.error != null && entry.outcome.error === null) this.#recovered = true;
    this.#entries.set(key, entry);
  }

  #use(root: SelectedCapabilityRoot): RootOutcome {
    const key = keyOf(root);
    const entry = this.#entries.get(key)!;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.outcome;
  }

  #evict(): void {
    for (const key of this.#entries.keys()) {
      if (this.#entries.size <= MAX_CACHED_ROOTS) return;
      this.#entries.delete(key);
    }
  }
}

const WHAT = 'looking at capability roots';

function keyOf({ id, location }: SelectedCapabilityRoot): string {
  return JSON.stringify([id, location.environmentId, location.path]);
}

/** Returns a text that differs for different sandboxes. */
function spell(sandbox: unknown): string {
  return JSON.stringify(sandbox) ?? 'null';
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const member of Object.values(value)) deepFreeze(member);
  return Object.freeze(value);
}
