import { FileError } from '../../files/errors.ts';
import { unenforceable } from '../errors.ts';
import { localProbe } from '../mounts/file-probe.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { isCurrent, planMounts } from '../mounts/plan-mounts.ts';
import type { DiskPolicy } from '../policy/policy.ts';
import { HELPER_START_ATTEMPTS } from './limits.ts';
import type { PooledHelper } from './pooled-helper.ts';

/** Starts a helper that sees what the plan says. */
export type StartHelper = (plan: MountPlan) => Promise<PooledHelper>;

/**
 * The helper of one policy. Mounts hold on to the files that were there when they were made: before each use it is made sure that the
 * same files are still in their places, and else another helper takes over. The old one ends when the last who uses it is done.
 */
export class PolicyHelper {
  readonly #disk: DiskPolicy;
  readonly #start: StartHelper;
  #current: { readonly plan: MountPlan; readonly helper: PooledHelper } | null = null;
  /** The check that is under way, and the one after it: whoever comes while one is under way may know of a later change. */
  #checking: Promise<PooledHelper> | null = null;
  #nextCheck: Promise<PooledHelper> | null = null;

  constructor(disk: DiskPolicy, start: StartHelper) {
    this.#disk = disk;
    this.#start = start;
  }

  /** Neither a helper nor anybody who waits for one. */
  get isIdle(): boolean {
    return this.#checking === null && this.#nextCheck === null && !this.#current?.helper.usable;
  }

  /** A helper that somebody has entered, who must leave it. */
  async enter(): Promise<PooledHelper> {
    for (let attempt = 1; attempt <= HELPER_START_ATTEMPTS; attempt++) {
      const helper = await this.#checked();
      // One that has just been chosen to make room, or has died, cannot be entered.
      if (helper.enter()) return helper;
    }
    throw new FileError('failed', 'fs sandbox helper failed: it ends as soon as it has started');
  }

  #checked(): Promise<PooledHelper> {
    this.#nextCheck ??= this.#checkAfter(this.#checking);
    return this.#nextCheck;
  }

  async #checkAfter(other: Promise<unknown> | null): Promise<PooledHelper> {
    await other?.catch(() => {});
    // Everybody who comes in this turn shares the check.
    await Promise.resolve();
    const check = this.#check();
    this.#checking = check;
    this.#nextCheck = null;
    try {
      return await check;
    } finally {
      if (this.#checking === check) this.#checking = null;
    }
  }

  async #check(): Promise<PooledHelper> {
    const current = this.#current;
    if (current !== null) {
      if (current.helper.usable && (await isCurrent(current.plan, localProbe))) return current.helper;
      current.helper.retire();
      this.#current = null;
    }
    for (let attempt = 1; attempt <= HELPER_START_ATTEMPTS; attempt++) {
      const started = await this.#startCurrent();
      if (started === null) continue;
      this.#current = started;
      return started.helper;
    }
    throw unenforceable('the files to protect keep changing');
  }

  /** Null when something else may have been mounted than was planned, because the files have changed since. */
  async #startCurrent(): Promise<{ readonly plan: MountPlan; readonly helper: PooledHelper } | null> {
    const plan = await planMounts(this.#disk, localProbe, 'files');
    const helper = await this.#start(plan).catch(async (error: unknown) => {
      if (await isCurrent(plan, localProbe)) throw error;
      return null;
    });
    if (helper === null) return null;
    try {
      if (await isCurrent(plan, localProbe)) return { plan, helper };
    } catch (error) {
      helper.retire();
      throw error;
    }
    helper.retire();
    return null;
  }
}
