import { MAX_CACHED_PLANS } from '../limits.ts';
import { type DiskPolicy, policyKey } from '../policy/policy.ts';
import { type FileProbe, localProbe } from './file-probe.ts';
import type { MountPlan } from './mount-plan.ts';
import { planFrom } from './plan-mounts.ts';
import { ProbeCache } from './probe-cache.ts';

/** A plan from the cache. */
export interface CachedPlan {
  readonly plan: MountPlan;
  /**
   * Whether a new plan would be the same, provided that all placeholders exist. The plan must not be used before the caller knows both.
   */
  isCurrent(): Promise<boolean>;
}

/**
 * An LRU cache of plans for programs, by policy. A plan depends only on the files that were probed for it. Probing the same files again,
 * concurrently, takes a fraction of the time of a new plan; meanwhile the start continues with the cached one.
 */
export class PlanCache {
  readonly #probe: FileProbe;
  /** By policy, least recently used first. */
  readonly #plans = new Map<string, { readonly plan: MountPlan; readonly probes: ProbeCache }>();

  constructor(probe: FileProbe = localProbe) {
    this.#probe = probe;
  }

  /** Null when the policy is not in the cache. */
  get(disk: DiskPolicy): CachedPlan | null {
    const key = keyOf(disk);
    const known = this.#plans.get(key);
    if (known === undefined) return null;
    this.#plans.delete(key);
    this.#plans.set(key, known);
    const { plan, probes } = known;
    const made = new Set(plan.placeholders.map(({ path }) => path));
    return { plan, isCurrent: () => probes.isUnchanged(made) };
  }

  /** Makes a new plan. Throws SandboxError when the policy cannot be enforced with the files on the disk. */
  async make(disk: DiskPolicy): Promise<MountPlan> {
    const key = keyOf(disk);
    const probes = new ProbeCache(this.#probe);
    this.#plans.delete(key);
    const plan = await planFrom(disk, probes, 'program');
    if (probes.verifiable) this.#plans.set(key, { plan, probes });
    const [oldest] = this.#plans.keys();
    if (this.#plans.size > MAX_CACHED_PLANS && oldest !== undefined) this.#plans.delete(oldest);
    return plan;
  }
}

function keyOf(disk: DiskPolicy): string {
  return policyKey({ disk, network: 'enabled' });
}
