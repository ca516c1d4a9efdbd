import { Semaphore } from '../../base/semaphore.ts';
import { FileError } from '../../files/errors.ts';
import { nativePathOfText } from '../../files/native-path.ts';
import type { Spawner } from '../../process/spawn/spawner.ts';
import { unenforceable } from '../errors.ts';
import { builtHelperProgram, type HelperProgram } from '../file-helper-program.ts';
import type { Bwrap } from '../linux/bwrap.ts';
import { seccompFilter } from '../linux/seccomp.ts';
import type { Architecture } from '../linux/syscalls.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { accessOf, type DiskPolicy, policyKey, type SandboxPolicy } from '../policy/policy.ts';
import type { PolicyFiles } from '../sandbox.ts';
import {
  HELPER_IDLE_MS,
  HELPER_START_MS,
  HELPER_WAIT_MS,
  MAX_HELPERS,
  MAX_WAITING_STARTS,
} from './limits.ts';
import { type NodeRuntime, nodeRuntime } from './node-runtime.ts';
import { PolicyHelper } from './policy-helper.ts';
import { PooledHelper } from './pooled-helper.ts';
import { RunningHelper } from './running-helper.ts';
import { filesThrough } from './used-files.ts';

/** What helpers are made with, and how many there may be. */
export interface SandboxedFilesOptions {
  readonly spawner: Spawner;
  readonly bwrap: Pick<Bwrap, 'path' | 'trusted' | 'proven'>;
  readonly architecture: Architecture;
  /** The environment of the server, of which helpers get what concerns temporary files. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly program?: HelperProgram;
  readonly maxHelpers?: number;
  readonly startMs?: number;
  readonly idleMs?: number;
  readonly waitMs?: number;
}

/**
 * Files under policies that hide or protect some of them. All operations under one policy are done by one helper, a process in a
 * sandbox that is built like that of a program. It is started for the first operation and shared by all connections; one that
 * nobody has used for a while is ended, and so is the longest unused one when there are too many. Nothing is ever done without it:
 * where it cannot be started, operations fail.
 */
export class SandboxedFiles {
  readonly #options: SandboxedFilesOptions;
  readonly #filter: Uint8Array;
  readonly #policies = new Map<string, PolicyHelper>();
  /** All that run, those included that only finish what they have begun. */
  readonly #helpers = new Set<PooledHelper>();
  readonly #places: Semaphore;
  #waiting = 0;
  #runtime: Promise<NodeRuntime> | null = null;
  readonly #end = new AbortController();

  constructor(options: SandboxedFilesOptions) {
    this.#options = options;
    this.#places = new Semaphore(options.maxHelpers ?? MAX_HELPERS);
    // The network is out of reach anyway, and the helper talks through pipes.
    this.#filter = seccompFilter('enabled', options.architecture);
  }

  /** Costs nothing: what cannot be had fails each operation, with a FileError. */
  files({ disk }: SandboxPolicy): PolicyFiles {
    if (disk === 'unrestricted') throw new TypeError('a policy without restrictions needs no helper');
    const key = policyKey({ disk, network: 'restricted' });
    return filesThrough(() => this.#enter(key, disk));
  }

  /** Processes of the helpers. */
  get pids(): number[] {
    return [...this.#helpers].map((helper) => helper.pid);
  }

  /** Ends all helpers; what is under way fails. */
  async close(): Promise<void> {
    this.#end.abort();
    await Promise.all([...this.#helpers].map((helper) => helper.end()));
  }

  async #enter(key: string, disk: DiskPolicy): Promise<PooledHelper> {
    let policy = this.#policies.get(key);
    if (policy === undefined) {
      policy = new PolicyHelper(disk, (plan) => this.#startOrExplain(plan, disk));
      this.#policies.set(key, policy);
      // What a helper takes besides its plan is found out at the same time.
      void this.#findMeans().catch(() => {});
    }
    try {
      return await policy.enter();
    } catch (error) {
      this.#forgetIdlePolicies();
      throw explained(error);
    }
  }

  /** If it is bwrap that does not work here, its trial says so, and what helps. */
  async #startOrExplain(plan: MountPlan, disk: DiskPolicy): Promise<PooledHelper> {
    try {
      return await this.#start(plan, disk);
    } catch (error) {
      this.#checkOpen();
      await this.#options.bwrap.path();
      throw error;
    }
  }

  async #start(plan: MountPlan, disk: DiskPolicy): Promise<PooledHelper> {
    const { spawner, env, architecture, startMs = HELPER_START_MS, idleMs = HELPER_IDLE_MS } = this.#options;
    const { bwrap, runtime } = await this.#findMeans();
    refuseWritable(bwrap, disk);
    await this.#takePlace();
    let running: RunningHelper;
    try {
      this.#checkOpen();
      const own = ownEnvironment(env);
      const filter = this.#filter;
      const launch = { spawner, bwrap, runtime, plan, filter, env: own, architecture, startMs };
      running = await RunningHelper.start(launch);
    } catch (error) {
      this.#places.release();
      throw error;
    }
    this.#options.bwrap.proven();
    const helper = new PooledHelper(running, idleMs, { onIdle: this.#onIdle, onGone: this.#onGone });
    this.#helpers.add(helper);
    if (this.#end.signal.aborted) helper.retire();
    this.#checkOpen();
    return helper;
  }

  #checkOpen(): void {
    if (this.#end.signal.aborted) throw new FileError('failed', 'the server is shutting down');
  }

  /** A place among the helpers, if need be that of one which nobody uses. */
  async #takePlace(): Promise<void> {
    this.#checkOpen();
    const { waitMs = HELPER_WAIT_MS, maxHelpers = MAX_HELPERS } = this.#options;
    const tooMany = new FileError(
      'failed',
      `all ${maxHelpers} helpers are busy with files under other sandbox policies; close files that are open there or try again later`,
    );
    if (this.#waiting >= MAX_WAITING_STARTS) throw tooMany;
    this.#waiting++;
    try {
      if (this.#helpers.size >= maxHelpers) this.#endLongestUnused();
      await this.#places.acquire(AbortSignal.any([AbortSignal.timeout(waitMs), this.#end.signal]));
    } catch {
      this.#checkOpen();
      throw tooMany;
    } finally {
      this.#waiting--;
    }
  }

  #endLongestUnused(): void {
    const unused = [...this.#helpers].filter((helper) => helper.usable && helper.isIdle);
    const [longest] = unused.sort((a, b) => a.idleSince - b.idleSince);
    void longest?.end();
  }

  readonly #onIdle = (helper: PooledHelper): void => {
    if (this.#waiting > 0) void helper.end();
  };

  readonly #onGone = (helper: PooledHelper): void => {
    this.#helpers.delete(helper);
    this.#places.release();
    this.#forgetIdlePolicies();
  };

  #forgetIdlePolicies(): void {
    for (const [key, policy] of this.#policies) if (policy.isIdle) this.#policies.delete(key);
  }

  async #findMeans(): Promise<{ readonly bwrap: string; readonly runtime: NodeRuntime }> {
    const [bwrap, runtime] = await Promise.all([this.#options.bwrap.trusted(), this.#nodeRuntime()]);
    return { bwrap, runtime };
  }

  /** Found out once; a failure is not kept. */
  async #nodeRuntime(): Promise<NodeRuntime> {
    this.#runtime ??= nodeRuntime(this.#options.program ?? builtHelperProgram(), process.execPath);
    try {
      return await this.#runtime;
    } catch (error) {
      this.#runtime = null;
      throw error;
    }
  }
}

/** A bwrap that whoever is sandboxed can replace confines nobody. */
function refuseWritable(bwrap: string, disk: DiskPolicy): void {
  if (disk.base === 'write' || accessOf(disk, nativePathOfText(bwrap)) !== 'write') return;
  throw unenforceable(`the sandbox would make bwrap itself (${bwrap}) writable; install it elsewhere`);
}

/** What the reference's helper gets as well. */
function ownEnvironment(env: SandboxedFilesOptions['env']): Record<string, string> {
  const entries = ['PATH', 'TMPDIR', 'TMP', 'TEMP'].map((name) => [name, env[name]] as const);
  return Object.fromEntries(
    entries.filter((entry): entry is readonly [string, string] => entry[1] !== undefined),
  );
}

/** Whatever keeps a helper from being there is a failure of the operation, in the words that clients know. */
function explained(error: unknown): FileError {
  if (error instanceof FileError && error.message.startsWith(FAILED)) return error;
  const cause = error instanceof Error ? error.message : String(error);
  return new FileError('failed', `${FAILED}: ${cause}`);
}

const FAILED = 'fs sandbox helper failed';
