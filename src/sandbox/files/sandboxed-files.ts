import { FairSemaphore } from '../../base/fair-semaphore.ts';
import { FairShares, type Owner, type SharedUnits } from '../../base/fair-shares.ts';
import { Semaphore } from '../../base/semaphore.ts';
import { TimeLimit } from '../../base/time-limit.ts';
import { FileError } from '../../files/errors.ts';
import { leaseFileSystem } from '../../files/file-system-wrappers.ts';
import { nativePathOfText } from '../../files/native-path.ts';
import type { SandboxCalls, Spawner } from '../../process/spawn/spawner.ts';
import { unenforceable } from '../errors.ts';
import { type HelperProgram, helperProgram, requireHelperProgram } from '../file-helper-program.ts';
import type { Bwrap } from '../linux/bwrap.ts';
import { ownsDevices } from '../linux/devices.ts';
import { seccompFilter } from '../linux/seccomp.ts';
import type { Architecture } from '../linux/syscalls.ts';
import { localProbe } from '../mounts/file-probe.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { MountTable } from '../mounts/mount-table.ts';
import { isCurrent, planMounts } from '../mounts/plan-mounts.ts';
import { accessOf, type DiskPolicy, policyKey, type SandboxPolicy } from '../policy/policy.ts';
import type { PolicyFiles } from '../sandbox.ts';
import { FileHelper } from './file-helper.ts';
import {
  HELPER_DESCRIPTORS,
  HELPER_IDLE_MS,
  HELPER_START_ATTEMPTS,
  HELPER_START_MS,
  HELPER_WAIT_MS,
  MAX_HELPERS,
  MAX_WAITING_STARTS,
} from './limits.ts';
import { type NodeRuntime, nodeRuntime } from './node-runtime.ts';

/** What helpers are started with, and their limits. */
export interface SandboxedFilesOptions {
  readonly spawner: Spawner;
  readonly calls: Pick<SandboxCalls, 'hasChanged'>;
  readonly bwrap: Pick<Bwrap, 'path' | 'trustedPath' | 'markWorking'>;
  readonly architecture: Architecture;
  /** The server's environment. Helpers get PATH and the variables for temporary directories. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly program?: HelperProgram;
  /** The descriptors that all sessions share. */
  readonly descriptors?: FairShares;
  readonly maxHelpers?: number;
  readonly startMs?: number;
  readonly idleMs?: number;
  readonly waitMs?: number;
}

/**
 * A pool of file helpers for policies that hide or protect files. One helper per policy performs all operations under it; all
 * connections share it. Its sandbox is built like that of a program. The first operation starts it. It ends when it has been idle for a
 * while, or to free a slot for another policy. Operations never run without a helper: they fail when it cannot be started.
 *
 * A mount keeps showing the files that existed when it was made, and the host's later mounts may be missing in a sandbox or writable there.
 * Before each use the pool checks that the same files are still at their paths and that nothing was mounted or unmounted. If not, it
 * starts another helper; the old one ends after its last user.
 */
export class SandboxedFiles {
  readonly #options: SandboxedFilesOptions;
  readonly #filter: Uint8Array;
  readonly #policies = new Map<string, PolicyState>();
  /** All running helpers, including retired ones that still have users. */
  readonly #helpers = new Set<FileHelper>();
  /** For running helpers. */
  readonly #slots: Semaphore;
  readonly #mounts: MountTable;
  /** For helpers in use, and for those that are being started. Other helpers can be ended at any time. */
  readonly #permits: FairSemaphore;
  readonly #descriptors: FairShares;
  #waiting = 0;
  #runtime: Promise<NodeRuntime> | null = null;
  readonly #closing = new AbortController();

  constructor(options: SandboxedFilesOptions) {
    this.#options = options;
    const { maxHelpers = MAX_HELPERS, descriptors = new FairShares(Number.POSITIVE_INFINITY) } = options;
    this.#slots = new Semaphore(maxHelpers);
    this.#permits = new FairSemaphore(maxHelpers, {
      name: 'helpers for sandboxed files',
      maxWaiting: MAX_WAITING_STARTS,
    });
    this.#descriptors = descriptors;
    this.#mounts = new MountTable(options.calls);
    // The helper has no network in its namespace and communicates through pipes.
    this.#filter = seccompFilter('enabled', options.architecture, ownsDevices() ? 'readOnly' : 'denied');
  }

  /**
   * Starts nothing yet. If the helper cannot be started, each operation fails with a FileError. The helpers in use count for the owner, who
   * may have a fair share of them.
   */
  files({ disk }: SandboxPolicy, owner: Owner = {}): PolicyFiles {
    if (disk === 'unrestricted') throw new TypeError('a policy without restrictions needs no helper');
    const key = policyKey({ disk, network: 'restricted' });
    return {
      fileSystem: leaseFileSystem(async () => {
        const helper = await this.#acquire(key, disk, owner);
        return { files: helper.files.fileSystem, release: () => helper.release(owner) };
      }),
      search: async (...args) => {
        const helper = await this.#acquire(key, disk, owner);
        try {
          return await helper.files.search(...args, owner);
        } finally {
          helper.release(owner);
        }
      },
    };
  }

  /** The process ids of the helpers. */
  get pids(): number[] {
    return [...this.#helpers].map((helper) => helper.pid);
  }

  /** Ends all helpers. Operations in progress fail. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([...this.#helpers].map((helper) => helper.end()));
  }

  /** Returns the policy's helper with one more user, which the caller must release. */
  async #acquire(key: string, disk: DiskPolicy, owner: Owner): Promise<FileHelper> {
    let policy = this.#policies.get(key);
    if (policy === undefined) {
      policy = {
        disk,
        current: null,
        checking: null,
        nextCheck: null,
        acquiring: 0,
        permits: 0,
        waiting: new Map(),
      };
      this.#policies.set(key, policy);
      // Looks them up while the plan is made.
      void this.#findPrograms().catch(() => {});
    }
    policy.acquiring++;
    try {
      for (let attempt = 1; attempt <= HELPER_START_ATTEMPTS; attempt++) {
        const helper = await this.#tryAcquire(policy, owner);
        if (helper !== null) return helper;
      }
      throw new FileError('failed', `${FAILED}: it ends as soon as it has started`);
    } catch (error) {
      throw explained(error);
    } finally {
      policy.acquiring--;
      this.#forgetIdlePolicies();
    }
  }

  /** Null when the helper has died, was ended to free its slot, or needs a permit after all. */
  async #tryAcquire(policy: PolicyState, owner: Owner): Promise<FileHelper | null> {
    const permit = await this.#permitFor(policy, owner);
    try {
      const helper = await this.#checkedHelper(policy);
      return helper?.acquire(owner, permit) ? helper : null;
    } finally {
      if (permit !== null) {
        policy.permits--;
        permit.leave(owner);
      }
    }
  }

  /** Counts the permit. Null when none is needed: the helper is in use or will be in a moment. Then it has a permit, which others can join. */
  async #permitFor(policy: PolicyState, owner: Owner): Promise<SharedUnits | null> {
    const { waiting } = policy;
    for (;;) {
      if (policy.permits > 0 || policy.current?.helper.isIdle === false) return null;
      const taking = waiting.get(owner);
      if (taking === undefined) break;
      await taking;
    }
    const taking = this.#takePermit(owner).finally(() => waiting.delete(owner));
    const counted = taking.then((permit) => {
      policy.permits++;
      return permit;
    });
    waiting.set(owner, counted);
    return await counted;
  }

  /** Waits until the owner may use one more helper. */
  async #takePermit(owner: Owner): Promise<SharedUnits> {
    const { waitMs = HELPER_WAIT_MS } = this.#options;
    try {
      return await TimeLimit.run(waitMs, this.#closing.signal, (signal) =>
        this.#permits.acquire(owner, signal),
      );
    } catch {
      this.#checkOpen();
      throw new FileError(
        'failed',
        `${this.#permits.refusal(owner)}; close files that are open under other sandbox policies or try again later`,
      );
    }
  }

  /** An operation that arrives during a check may know of a later change, so it shares the next check. */
  #checkedHelper(policy: PolicyState): Promise<FileHelper | null> {
    policy.nextCheck ??= this.#checkAfter(policy.checking, policy);
    return policy.nextCheck;
  }

  async #checkAfter(previous: Promise<unknown> | null, policy: PolicyState): Promise<FileHelper | null> {
    await previous?.catch(() => {});
    // All operations that arrive in this microtask turn share the check.
    await Promise.resolve();
    const check = this.#check(policy);
    policy.checking = check;
    policy.nextCheck = null;
    try {
      return await check;
    } finally {
      if (policy.checking === check) policy.checking = null;
    }
  }

  /** Returns null when a helper must be started and no operation has a permit for that. */
  async #check(policy: PolicyState): Promise<FileHelper | null> {
    const { current } = policy;
    if (current !== null) {
      if (current.helper.usable && (await this.#isCurrent(current))) return current.helper;
      current.helper.retire();
      policy.current = null;
    }
    if (policy.permits === 0) return null;
    for (let attempt = 1; attempt <= HELPER_START_ATTEMPTS; attempt++) {
      const started = await this.#startCurrent(policy.disk);
      if (started === null) continue;
      policy.current = started;
      return started.helper;
    }
    throw unenforceable('the files to protect keep changing');
  }

  /** Returns null when files changed during the start, so that the mounts may differ from the plan. */
  async #startCurrent(disk: DiskPolicy): Promise<CurrentHelper | null> {
    const mounts = this.#mounts.version();
    const plan = await planMounts(disk, localProbe, 'files');
    const helper = await this.#startOrExplain(plan, disk).catch(async (error: unknown) => {
      if (await this.#isCurrent({ plan, mounts })) throw error;
      return null;
    });
    if (helper === null) return null;
    try {
      if (await this.#isCurrent({ plan, mounts })) return { plan, helper, mounts };
    } catch (error) {
      helper.retire();
      throw error;
    }
    helper.retire();
    return null;
  }

  async #isCurrent({ plan, mounts }: Pick<CurrentHelper, 'plan' | 'mounts'>): Promise<boolean> {
    return mounts === this.#mounts.version() && (await isCurrent(plan, localProbe));
  }

  /** If bwrap does not work on this machine, the error of its probe says so and how to fix it. */
  async #startOrExplain(plan: MountPlan, disk: DiskPolicy): Promise<FileHelper> {
    try {
      return await this.#start(plan, disk);
    } catch (error) {
      this.#checkOpen();
      await this.#options.bwrap.path();
      throw error;
    }
  }

  async #start(plan: MountPlan, disk: DiskPolicy): Promise<FileHelper> {
    const { spawner, architecture, startMs = HELPER_START_MS, idleMs = HELPER_IDLE_MS } = this.#options;
    const { bwrap, runtime } = await this.#findPrograms();
    refuseWritable(bwrap, disk);
    const descriptors = this.#takeDescriptors();
    await this.#takeSlot().catch((error: unknown) => {
      descriptors.leave(this);
      throw error;
    });
    let helper: FileHelper;
    try {
      this.#checkOpen();
      const env = helperEnvironment(this.#options.env);
      const filter = this.#filter;
      helper = await FileHelper.start({ spawner, bwrap, runtime, plan, filter, env, architecture, startMs });
    } catch (error) {
      this.#slots.release();
      descriptors.leave(this);
      throw error;
    }
    this.#options.bwrap.markWorking();
    const onEnded = () => {
      descriptors.leave(this);
      this.#onEnded(helper);
    };
    helper.own(idleMs, { onIdle: this.#onIdle, onEnded });
    this.#helpers.add(helper);
    if (this.#closing.signal.aborted) helper.retire();
    this.#checkOpen();
    return helper;
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw new FileError('failed', 'the server is shutting down');
  }

  /** All helpers together count as one owner of descriptors. */
  #takeDescriptors(): SharedUnits {
    const taken = this.#descriptors.take(this, HELPER_DESCRIPTORS);
    if (taken !== null) return taken;
    throw new FileError('failed', this.#descriptors.refusal(this, HELPER_DESCRIPTORS));
  }

  /** Waits for a free slot. Ends the helper that has been idle longest if all slots are taken: with a permit, one of them is not in use. */
  async #takeSlot(): Promise<void> {
    this.#checkOpen();
    const { maxHelpers = MAX_HELPERS } = this.#options;
    this.#waiting++;
    try {
      if (this.#helpers.size >= maxHelpers) this.#endLongestIdle();
      await this.#slots.acquire(this.#closing.signal);
    } catch (error) {
      this.#checkOpen();
      throw error;
    } finally {
      this.#waiting--;
    }
  }

  #endLongestIdle(): void {
    const idle = [...this.#helpers].filter((helper) => helper.usable && helper.isIdle);
    const [longest] = idle.sort((a, b) => a.idleSince - b.idleSince);
    void longest?.end();
  }

  readonly #onIdle = (helper: FileHelper): void => {
    if (this.#waiting > 0) void helper.end();
  };

  readonly #onEnded = (helper: FileHelper): void => {
    this.#helpers.delete(helper);
    this.#slots.release();
    this.#forgetIdlePolicies();
  };

  #forgetIdlePolicies(): void {
    for (const [key, { current, acquiring }] of this.#policies) {
      if (acquiring === 0 && !current?.helper.usable) this.#policies.delete(key);
    }
    if (this.#policies.size === 0) this.#mounts.unwatch();
  }

  async #findPrograms(): Promise<{ readonly bwrap: string; readonly runtime: NodeRuntime }> {
    const [bwrap, runtime] = await Promise.all([this.#options.bwrap.trustedPath(), this.#nodeRuntime()]);
    return { bwrap, runtime };
  }

  /** Looked up once. A failure is not cached. */
  async #nodeRuntime(): Promise<NodeRuntime> {
    this.#runtime ??= loadRuntime(this.#options.program);
    try {
      return await this.#runtime;
    } catch (error) {
      this.#runtime = null;
      throw error;
    }
  }
}

/** Rejects with SandboxError when the program of the helpers is missing. */
async function loadRuntime(program = helperProgram()): Promise<NodeRuntime> {
  await requireHelperProgram(program);
  return nodeRuntime(program, process.execPath);
}

/** The helper of one policy. */
interface PolicyState {
  readonly disk: DiskPolicy;
  current: CurrentHelper | null;
  /** The check in progress, and the one that follows it. */
  checking: Promise<FileHelper | null> | null;
  nextCheck: Promise<FileHelper | null> | null;
  /** Operations that are about to use the helper, and how many of them have a permit for one that is not in use. */
  acquiring: number;
  permits: number;
  /** One operation of each owner waits for such a permit, and the others for that operation. */
  readonly waiting: Map<Owner, Promise<SharedUnits>>;
}

/** The latest helper, the plan that it was built from, and the version of the mount table at that time. */
interface CurrentHelper {
  readonly plan: MountPlan;
  readonly helper: FileHelper;
  readonly mounts: number;
}

/** Refuses a policy under which sandboxed programs could replace bwrap: they could escape through it. */
function refuseWritable(bwrap: string, disk: DiskPolicy): void {
  if (disk.base === 'write' || accessOf(disk, nativePathOfText(bwrap)) !== 'write') return;
  throw unenforceable(`the sandbox would make bwrap itself (${bwrap}) writable; install it elsewhere`);
}

/** The same variables as in the reference's helper. */
function helperEnvironment(env: SandboxedFilesOptions['env']): Record<string, string> {
  const entries = ['PATH', 'TMPDIR', 'TMP', 'TEMP'].map((name) => [name, env[name]] as const);
  return Object.fromEntries(
    entries.filter((entry): entry is readonly [string, string] => entry[1] !== undefined),
  );
}

/** Reports any reason for a missing helper as a failure of the operation, in the wording of the reference. */
function explained(error: unknown): FileError {
  if (error instanceof FileError && error.message.startsWith(FAILED)) return error;
  const cause = error instanceof Error ? error.message : String(error);
  return new FileError('failed', `${FAILED}: ${cause}`);
}

const FAILED = 'fs sandbox helper failed';
