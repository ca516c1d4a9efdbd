import { REMEMBERED_PLANS } from '../limits.ts';
import { type DiskPolicy, policyKey } from '../policy/policy.ts';
import { type FileProbe, localProbe } from './file-probe.ts';
import type { MountPlan } from './mount-plan.ts';
import { planFrom } from './plan-mounts.ts';
import { RememberedLooks } from './remembered-looks.ts';

/** A plan that was made before. */
export interface RememberedPlan {
  readonly plan: MountPlan;
  /**
   * Whether it is what a new plan would be, if all of its placeholders could be made or were there. It must not be relied upon before
   * both are known.
   */
  stillHolds(): Promise<boolean>;
}

/**
 * The plans of the latest policies for programs. A plan follows from what was seen on the disk and from nothing else: looking at the
 * same files again, all at once, takes a fraction of the time of a new plan, and meanwhile the old one can be prepared for.
 */
export class PlanMemory {
  readonly #probe: FileProbe;
  /** By policy, the longest unused first. */
  readonly #plans = new Map<string, { readonly plan: MountPlan; readonly looks: RememberedLooks }>();

  constructor(probe: FileProbe = localProbe) {
    this.#probe = probe;
  }

  /** Null when there is none. */
  recall(disk: DiskPolicy): RememberedPlan | null {
    const key = keyOf(disk);
    const known = this.#plans.get(key);
    if (known === undefined) return null;
    this.#plans.delete(key);
    this.#plans.set(key, known);
    const { plan, looks } = known;
    const made = new Set(plan.placeholders.map(({ path }) => path));
    return { plan, stillHolds: () => looks.wouldRepeat(made) };
  }

  /** A new plan. Throws SandboxError when the policy cannot be kept with what is on the disk. */
  async make(disk: DiskPolicy): Promise<MountPlan> {
    const key = keyOf(disk);
    const looks = new RememberedLooks(this.#probe);
    this.#plans.delete(key);
    const plan = await planFrom(disk, looks, 'program');
    if (looks.repeatable) this.#plans.set(key, { plan, looks });
    const [oldest] = this.#plans.keys();
    if (this.#plans.size > REMEMBERED_PLANS && oldest !== undefined) this.#plans.delete(oldest);
    return plan;
  }
}

function keyOf(disk: DiskPolicy): string {
  return policyKey({ disk, network: 'enabled' });
}
