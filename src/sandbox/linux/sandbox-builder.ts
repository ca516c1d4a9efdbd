import { closeSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { unlessAborted } from '../../base/abort.ts';
import type { FairShares, Owner } from '../../base/fair-shares.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import { isWithin, type NativePath, nativePathOfBytes, nativePathOfText } from '../../files/native-path.ts';
import {
  cancelled,
  checkLaunch,
  describeLaunchFailure,
  LaunchCache,
  rejectNulBytes,
} from '../../process/spawn/launch-checks.ts';
import type { Child, SandboxCalls, SpawnSpec } from '../../process/spawn/spawner.ts';
import { discardChild, type SandboxedLaunch, SandboxOutdatedError } from '../../process/start-program.ts';
import { DenialScanner } from '../denial.ts';
import { unenforceable } from '../errors.ts';
import { localProbe } from '../mounts/file-probe.ts';
import { kernelCacheProbe } from '../mounts/kernel-cache-probe.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { type CachedPlan, PlanCache } from '../mounts/plan-cache.ts';
import { type DiskPolicy, isFullWrite, type SandboxPolicy } from '../policy/policy.ts';
import type { Bwrap } from './bwrap.ts';
import {
  BwrapCommand,
  type BwrapInput,
  FIRST_INHERITED_FD,
  type Proxied,
  type ReadyPlan,
} from './bwrap-command.ts';
import { descriptorPath, pathOfDescriptor } from './descriptors.ts';
import { ownsDevices } from './devices.ts';
import { hasEntered } from './has-entered.ts';
import { Instructions } from './instructions.ts';
import { launcherImage } from './launcher.ts';
import { ABANDONED_DEADLINE_MS, PLAN_ATTEMPTS } from './limits.ts';
import { PlanOutdatedError } from './placeholder-entries.ts';
import { type HeldPlaceholders, Placeholders } from './placeholders.ts';
import type { PrebuiltSandbox, SandboxPool } from './sandbox-pool.ts';
import { type MountCalls, type NetworkMode, seccompFilter } from './seccomp.ts';
import type { Architecture } from './syscalls.ts';

/**
 * Builds Linux sandboxes for programs. bwrap gives a program its own file tree, process and network namespaces and a seccomp filter. A
 * program that may write everywhere gets the filter alone. One that may also use the network runs without a sandbox.
 */
export class LinuxSandboxBuilder {
  readonly #architecture: Architecture;
  readonly #bwrap: UsedBwrap;
  readonly #calls: SandboxCalls;
  readonly #pool: SandboxPool | null;
  readonly #placeholders: Placeholders;
  readonly #launchCache = new LaunchCache(() => performance.now());
  readonly #plans: PlanCache;
  readonly #filters = new Map<`${NetworkMode} ${MountCalls}`, Buffer>();
  /** Cleanups of cancelled starts. At most as many as there are starts in progress. */
  readonly #abandoned = new Set<Promise<void>>();

  /** Without a pool each program waits until its sandbox is built. `descriptors` are those that all sessions share. */
  constructor(
    calls: SandboxCalls,
    bwrap: UsedBwrap,
    architecture: Architecture,
    pool: SandboxPool | null = null,
    descriptors?: FairShares,
  ) {
    this.#architecture = architecture;
    this.#bwrap = bwrap;
    this.#calls = calls;
    this.#pool = pool;
    this.#placeholders = new Placeholders(calls, descriptors);
    this.#plans = new PlanCache(kernelCacheProbe(localProbe, calls));
  }

  /**
   * Returns what to start instead of the program so that the policy holds. Rejects with SpawnError for an error that the program would
   * have without a sandbox too, and with SandboxError when the policy cannot be enforced. Rejects immediately when `signal` aborts, and
   * cleans up in the background.
   */
  async wrapProgram(
    spec: SpawnSpec,
    policy: SandboxPolicy,
    network: NetworkMode,
    signal?: AbortSignal,
    proxied: Proxied | null = null,
  ): Promise<SandboxedLaunch> {
    const wrapping = this.#wrap(spec, policy, network, proxied, signal);
    return signal === undefined ? wrapping : this.#unlessAborted(wrapping, signal);
  }

  /** Resolves when the cleanups of cancelled starts are done, or after a deadline. */
  async close(): Promise<void> {
    await withTimeout(Promise.all([...this.#abandoned, this.#pool?.close()]), ABANDONED_DEADLINE_MS);
  }

  async #wrap(
    spec: SpawnSpec,
    policy: SandboxPolicy,
    network: NetworkMode,
    proxied: Proxied | null,
    signal?: AbortSignal,
  ): Promise<SandboxedLaunch> {
    const denialDetector = new DenialScanner();
    const fullWrite = isFullWrite(policy);
    if (fullWrite && network === 'enabled') return { spec, denialDetector, release: null };
    const path = await this.#checkedPath(spec, signal);
    if (fullWrite && network === 'restricted')
      return { spec: this.#filtered(spec, path), denialDetector, release: null };
    const bwrap = await this.#bwrapFor(policy);
    const disk = diskOf(policy);
    const cached = this.#plans.get(disk);
    const preparing = this.#prepare(disk, cached, spec);
    if (cached === null) {
      const ready = await preparing;
      try {
        const command = new BwrapCommand(spec, path, ready.plan, network, proxied);
        const input = command.input(ready, this.#architecture)!;
        const entered = (child: Child) => hasEntered(child, network, this.#bwrap);
        const wrapper = command.launchSpec(bwrap, input, this.#filter(network));
        return { spec: wrapper, denialDetector, entered, release: ready.release };
      } catch (error) {
        await ready.release?.();
        throw error;
      }
    }
    const { plan } = cached;
    const command = new BwrapCommand(spec, path, plan, network, proxied);
    try {
      return this.#wrapWithCachedPlan(command, { bwrap, plan, preparing, denialDetector, network, signal });
    } catch (error) {
      this.#abandon(preparing);
      throw describeLaunchFailure(error, bwrap);
    }
  }

  /** Starts bwrap, or takes a pre-built sandbox, while the check whether the cached plan still holds is in progress. */
  #wrapWithCachedPlan(command: BwrapCommand, start: PendingLaunch): SandboxedLaunch {
    const { bwrap, plan, preparing, denialDetector, network, signal } = start;
    let ready: PreparedPlan | null | undefined;
    preparing.then(
      (made) => {
        ready = made;
      },
      () => {
        ready = null;
      },
    );
    const { poolKey } = command;
    const prebuilt = poolKey === null ? null : (this.#pool?.take(plan, poolKey) ?? null);
    const instructions = prebuilt?.instructions ?? new Instructions(this.#calls);
    const { launcher, pipe } = instructions.inherited;
    const launch = {
      ...(prebuilt === null
        ? { spec: command.launchSpec(bwrap, { launcher, args: pipe }, this.#filter(network)) }
        : { spec: null, child: prebuilt.child }),
      denialDetector,
      entered: async (child: Child) => {
        instructions.closeReadEnd();
        const made = await preparing;
        const instructed = instructions.send(this.#inputFor(command, made, plan, prebuilt));
        const entered = await hasEntered(child, network, this.#bwrap, instructed);
        if (prebuilt !== null && entered) this.#pool?.noteSuccess(plan);
        if (prebuilt !== null && !entered && !signal?.aborted) this.#pool?.noteFailure(plan);
        if (entered && made.plan === plan) this.#prebuildNext(command, start);
        if (entered) launch.release = made.release;
        return entered;
      },
      release: async (): Promise<void> => {
        instructions.close();
        // A cancelled start does not wait for a disk that may never answer.
        if (ready === undefined) this.#abandon(preparing);
        else await ready?.release?.();
      },
    } as Mutable<SandboxedLaunch>;
    return launch;
  }

  /** Returns what bwrap reads. Throws SandboxOutdatedError when the started or pre-built bwrap does not fit the plan that was made. */
  #inputFor(
    command: BwrapCommand,
    made: PreparedPlan,
    plan: MountPlan,
    prebuilt: PrebuiltSandbox | null,
  ): BwrapInput {
    if (made.plan !== plan) this.#pool?.drop(plan);
    if (prebuilt === null) {
      const input = command.input(made, this.#architecture);
      if (input !== null) return input;
    } else if (made.plan === plan && !this.#calls.hasExited(prebuilt.child.pid)) {
      return command.prebuiltInput(made, this.#architecture);
    }
    throw new SandboxOutdatedError(unenforceable('the files to protect keep changing; start again'));
  }

  #prebuildNext(command: BwrapCommand, { bwrap, plan, network }: PendingLaunch): void {
    const { poolKey } = command;
    if (poolKey === null) return;
    this.#pool?.prebuild(plan, poolKey, (inherited) =>
      command.prebuildSpec(bwrap, inherited, this.#filter(network)),
    );
  }

  async #unlessAborted(wrapping: Promise<SandboxedLaunch>, signal: AbortSignal): Promise<SandboxedLaunch> {
    try {
      return await unlessAborted(wrapping, signal, () => {
        throw cancelled('aborted');
      });
    } catch (error) {
      if (signal.aborted) this.#abandon(wrapping.then(withoutChild));
      throw error;
    }
  }

  #abandon(wrapping: Promise<Pick<SandboxedLaunch, 'release'>>): void {
    const cleared = wrapping
      .then(({ release }) => release?.())
      .catch(() => {})
      .finally(() => this.#abandoned.delete(cleared));
    this.#abandoned.add(cleared);
  }

  /** If bwrap does not work at all, reports that rather than any other problem with it. */
  async #bwrapFor(policy: SandboxPolicy): Promise<string> {
    const bwrap = await (this.#bwrap.works === false ? this.#bwrap.path() : this.#bwrap.trustedPath());
    try {
      refuseWritable(policy, nativePathOfText(bwrap));
    } catch (error) {
      await this.#bwrap.path();
      throw error;
    }
    return bwrap;
  }

  async #checkedPath(spec: SpawnSpec, signal?: AbortSignal): Promise<string> {
    if (this.#launchCache.knows(spec)) {
      rejectNulBytes(spec);
      return spec.program;
    }
    const path = await checkLaunch(spec, signal);
    this.#launchCache.add(spec);
    return path;
  }

  async #prepare(disk: DiskPolicy, cached: CachedPlan | null, spec: SpawnSpec): Promise<PreparedPlan> {
    const [directory, held] = await Promise.all([
      settled(this.#realDirectory(spec.cwd)),
      this.#hold(disk, cached, spec.owner),
    ]);
    try {
      return { ...held, cwd: await directory() };
    } catch (error) {
      await held.release?.();
      this.#launchCache.forget(spec);
      // Throws an error that describes the problem with the directory. If the check finds none, the original error stands.
      await checkLaunch(spec);
      throw error;
    }
  }

  /** Resolves the links in a directory path. */
  async #realDirectory(directory: string): Promise<NativePath> {
    const fd = this.#calls.openCached(nativePathOfText(directory), 'followed');
    if (typeof fd !== 'number') return nativePathOfBytes(await realpath(directory, 'latin1'));
    try {
      return pathOfDescriptor(fd);
    } finally {
      closeSync(fd);
    }
  }

  async #hold(disk: DiskPolicy, cached: CachedPlan | null, owner?: Owner): Promise<HeldPlan> {
    if (cached !== null) {
      const [held, holds] = await Promise.all([
        settled(this.#holdPlaceholders(cached.plan, owner)),
        cached.isCurrent(),
      ]);
      const kept = await held().catch(() => null);
      if (kept !== null && holds) return kept;
      await kept?.release?.();
    }
    for (let attempt = 1; ; attempt++) {
      const plan = await this.#plans.make(disk);
      try {
        return await this.#holdPlaceholders(plan, owner);
      } catch (error) {
        if (!(error instanceof PlanOutdatedError)) throw error;
        if (attempt === PLAN_ATTEMPTS)
          throw unenforceable(`the files to protect keep changing: ${error.message}`);
      }
    }
  }

  async #holdPlaceholders(plan: MountPlan, owner?: Owner): Promise<HeldPlan> {
    if (plan.placeholders.length === 0) return { plan, identities: NO_IDENTITIES, release: null };
    return { plan, ...(await this.#placeholders.hold(plan.placeholders, owner)) };
  }

  /** Starts the launcher from a memory file. It applies the filter and executes the program. */
  #filtered(spec: SpawnSpec, path: string): SpawnSpec {
    const filter = this.#filter('restricted', 'denied');
    const { argv, env } = spec;
    const own = spec.inherited ?? [];
    const descriptor = FIRST_INHERITED_FD + own.length;
    const launch = {
      path,
      argv,
      env,
      descriptor,
      devices: [],
      stdin: null,
      session: null,
      filter,
      listeners: null,
      mounts: [],
      certain: false,
      cwd: null,
      report: null,
    } as const;
    return {
      ...spec,
      program: descriptorPath(descriptor),
      argv: [LAUNCHER_NAME],
      env: {},
      inherited: [...own, launcherImage(launch, this.#architecture)],
      wrapper: 'becomes',
    };
  }

  /** The default is for a program in a file tree of its own, whose launcher makes devices read-only if this process owns them. */
  #filter(network: NetworkMode, mounts: MountCalls = ownsDevices() ? 'readOnly' : 'denied'): Buffer {
    const key = `${network} ${mounts}` as const;
    const filter = this.#filters.get(key) ?? seccompFilter(network, this.#architecture, mounts);
    this.#filters.set(key, filter);
    return filter;
  }
}

interface HeldPlan extends Omit<ReadyPlan, 'cwd'> {
  /** Releases the placeholders. Null when there are none. */
  readonly release: SandboxedLaunch['release'];
}

type PreparedPlan = HeldPlan & ReadyPlan;

/** A start whose plan is still being checked. */
interface PendingLaunch {
  readonly bwrap: string;
  /** The cached plan, which is used if it still holds. */
  readonly plan: MountPlan;
  readonly preparing: Promise<PreparedPlan>;
  readonly denialDetector: DenialScanner;
  readonly network: NetworkMode;
  readonly signal: AbortSignal | undefined;
}

type UsedBwrap = Pick<Bwrap, 'works' | 'path' | 'trustedPath' | 'markWorking'>;

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

const LAUNCHER_NAME = 'exec-server-launch';

/** Waits until the promise settles. Returns a function that gives its outcome. */
async function settled<T>(work: Promise<T>): Promise<() => Promise<T>> {
  await work.catch(() => {});
  return () => work;
}

/** Kills the pre-built child of a cancelled launch. */
async function withoutChild(launch: SandboxedLaunch): Promise<SandboxedLaunch> {
  if (launch.spec === null) await discardChild(launch.child);
  return launch;
}

const NO_IDENTITIES: HeldPlaceholders['identities'] = new Map();

/** Allows reading and writing every file. */
const EVERYTHING: DiskPolicy = { base: 'write', platform: false, entries: [], denyGlobs: [] };

function diskOf({ disk }: SandboxPolicy): DiskPolicy {
  return disk === 'unrestricted' ? EVERYTHING : disk;
}

/**
 * Refuses a policy under which sandboxed programs could replace bwrap, because they could escape through it. A policy that allows writing
 * everywhere is not refused: it gives away more than bwrap.
 */
function refuseWritable({ disk }: SandboxPolicy, bwrap: NativePath): void {
  if (disk === 'unrestricted') return;
  const entry = disk.entries.findLast(({ path }) => path !== '/' && isWithin(bwrap, path));
  if (entry?.access === 'write') {
    throw unenforceable(
      `the sandbox would make bwrap itself (${bwrap}) writable; install it elsewhere or narrow ${entry.path}`,
    );
  }
}
