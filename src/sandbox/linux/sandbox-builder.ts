import { closeSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { unlessAborted } from '../../base/abort.ts';
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
import { cachedProbe } from '../mounts/cached-probe.ts';
import { localProbe } from '../mounts/file-probe.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { PlanMemory, type RememberedPlan } from '../mounts/plan-memory.ts';
import { type DiskPolicy, isFullWrite, type SandboxPolicy } from '../policy/policy.ts';
import type { Bwrap } from './bwrap.ts';
import {
  BwrapCommand,
  type BwrapInput,
  FIRST_INHERITED_FD,
  type Proxied,
  type ReadyPlan,
} from './bwrap-command.ts';
import { descriptorPath, placeOf } from './descriptors.ts';
import { hasEntered } from './entry.ts';
import { Instructions } from './instructions.ts';
import { launcherImage } from './launcher.ts';
import { ABANDONED_DEADLINE_MS, PLAN_ATTEMPTS } from './limits.ts';
import { type HeldPlaces, Placeholders, PlanOutdated } from './placeholders.ts';
import type { SandboxReserve, WaitingSandbox } from './reserve.ts';
import { type NetworkMode, seccompFilter } from './seccomp.ts';
import type { Architecture } from './syscalls.ts';

/**
 * Puts programs into sandboxes of Linux: bwrap gives them a file tree, processes and a network of their own, and a filter of system
 * calls. A program that may write everywhere gets the filter alone, and one that may use the network as well runs as it is.
 */
export class LinuxSandboxBuilder {
  readonly #architecture: Architecture;
  readonly #bwrap: UsedBwrap;
  readonly #calls: SandboxCalls;
  readonly #reserve: SandboxReserve | null;
  readonly #placeholders: Placeholders;
  readonly #launchCache = new LaunchCache(() => performance.now());
  readonly #plans: PlanMemory;
  readonly #filters = new Map<NetworkMode, Buffer>();
  /** Enclosures that nobody waits for any more. As many as there are starts under way, at most. */
  readonly #abandoned = new Set<Promise<void>>();

  /** Without a reserve each program waits until its sandbox has been built. */
  constructor(
    calls: SandboxCalls,
    bwrap: UsedBwrap,
    architecture: Architecture,
    reserve: SandboxReserve | null = null,
  ) {
    this.#architecture = architecture;
    this.#bwrap = bwrap;
    this.#calls = calls;
    this.#reserve = reserve;
    this.#placeholders = new Placeholders(calls);
    this.#plans = new PlanMemory(cachedProbe(localProbe, calls));
  }

  /**
   * What to start in place of the program so that it is restricted to the policy. Rejects with SpawnError for what would be wrong with
   * the program without a sandbox, with SandboxError when the policy cannot be kept. When `signal` aborts it rejects at once and
   * clears away later what it was about to make.
   */
  async wrapProgram(
    spec: SpawnSpec,
    policy: SandboxPolicy,
    network: NetworkMode,
    signal?: AbortSignal,
    proxied: Proxied | null = null,
  ): Promise<SandboxedLaunch> {
    const wrapping = this.#wrap(spec, policy, network, proxied, signal);
    return signal === undefined ? wrapping : this.#untilAborted(wrapping, signal);
  }

  /** Resolves when what was made for starts that were given up is cleared away, or does not come to an end. */
  async close(): Promise<void> {
    await withTimeout(Promise.all([...this.#abandoned, this.#reserve?.close()]), ABANDONED_DEADLINE_MS);
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
    const remembered = this.#plans.recall(disk);
    const making = this.#makeReady(disk, remembered, spec);
    if (remembered === null) {
      const ready = await making;
      try {
        const command = new BwrapCommand(spec, path, ready.plan, network, proxied);
        const input = command.input(ready, this.#architecture)!;
        const entered = (child: Child) => hasEntered(child, network, this.#bwrap);
        const wrapper = command.wrapper(bwrap, input, this.#filter(network));
        return { spec: wrapper, denialDetector, entered, release: ready.release };
      } catch (error) {
        await ready.release?.();
        throw error;
      }
    }
    const { plan } = remembered;
    const command = new BwrapCommand(spec, path, plan, network, proxied);
    try {
      return this.#wrapMeanwhile(command, { bwrap, plan, making, denialDetector, network, signal });
    } catch (error) {
      this.#abandon(making);
      throw describeLaunchFailure(error, bwrap);
    }
  }

  /**
   * It is found out whether what is to be built is what it was the last time while bwrap is started, or after it has built most of it:
   * then there is a sandbox in reserve.
   */
  #wrapMeanwhile(command: BwrapCommand, start: UnderWay): SandboxedLaunch {
    const { bwrap, plan, making, denialDetector, network, signal } = start;
    let ready: PreparedPlan | null | undefined;
    making.then(
      (made) => {
        ready = made;
      },
      () => {
        ready = null;
      },
    );
    const { kind } = command;
    const spare = kind === null ? null : (this.#reserve?.take(plan, kind) ?? null);
    const instructions = spare?.instructions ?? new Instructions(this.#calls);
    const { launcher, pipe } = instructions.inherited;
    const launch = {
      ...(spare === null
        ? { spec: command.wrapper(bwrap, { launcher, args: pipe }, this.#filter(network)) }
        : { spec: null, child: spare.child }),
      denialDetector,
      entered: async (child: Child) => {
        instructions.handOver();
        const made = await making;
        const told = instructions.send(this.#inputFor(command, made, plan, spare));
        const entered = await hasEntered(child, network, this.#bwrap, told);
        if (spare !== null && entered) this.#reserve?.noteSuccess(plan);
        if (spare !== null && !entered && !signal?.aborted) this.#reserve?.noteFailure(plan);
        if (entered && made.plan === plan) this.#provideNext(command, start);
        if (entered) launch.release = made.release;
        return entered;
      },
      release: async (): Promise<void> => {
        instructions.close();
        // A start that was given up does not wait for a disk that may never answer.
        if (ready === undefined) this.#abandon(making);
        else await ready?.release?.();
      },
    } as Mutable<SandboxedLaunch>;
    return launch;
  }

  /** What bwrap is told, which in reserve has built most of `plan` already. Throws SandboxOutdatedError when it is not fit for what was made. */
  #inputFor(
    command: BwrapCommand,
    made: PreparedPlan,
    plan: MountPlan,
    spare: WaitingSandbox | null,
  ): BwrapInput {
    if (made.plan !== plan) this.#reserve?.drop(plan);
    if (spare === null) {
      const input = command.input(made, this.#architecture);
      if (input !== null) return input;
    } else if (made.plan === plan && !this.#calls.hasExited(spare.child.pid)) {
      return command.inputAhead(made, this.#architecture);
    }
    throw new SandboxOutdatedError(unenforceable('the files to protect keep changing; start again'));
  }

  #provideNext(command: BwrapCommand, { bwrap, plan, network }: UnderWay): void {
    const { kind } = command;
    if (kind === null) return;
    this.#reserve?.provide(plan, kind, (inherited) =>
      command.wrapperAhead(bwrap, inherited, this.#filter(network)),
    );
  }

  async #untilAborted(wrapping: Promise<SandboxedLaunch>, signal: AbortSignal): Promise<SandboxedLaunch> {
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

  /** Whether it works at all is found out before anything else is said about it. */
  async #bwrapFor(policy: SandboxPolicy): Promise<string> {
    const bwrap = await (this.#bwrap.works === false ? this.#bwrap.path() : this.#bwrap.trusted());
    try {
      refuseWithin(policy, nativePathOfText(bwrap));
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

  async #makeReady(
    disk: DiskPolicy,
    remembered: RememberedPlan | null,
    spec: SpawnSpec,
  ): Promise<PreparedPlan> {
    const [place, held] = await Promise.all([settled(this.#placeOf(spec.cwd)), this.#hold(disk, remembered)]);
    try {
      return { ...held, cwd: await place() };
    } catch (error) {
      await held.release?.();
      this.#launchCache.forget(spec);
      // The check says what is wrong with the directory now; when it finds nothing, the system's own words stand.
      await checkLaunch(spec);
      throw error;
    }
  }

  /** The directory without links. */
  async #placeOf(directory: string): Promise<NativePath> {
    const fd = this.#calls.openCached(nativePathOfText(directory), 'followed');
    if (typeof fd !== 'number') return nativePathOfBytes(await realpath(directory, 'latin1'));
    try {
      return placeOf(fd);
    } finally {
      closeSync(fd);
    }
  }

  async #hold(disk: DiskPolicy, remembered: RememberedPlan | null): Promise<HeldPlan> {
    if (remembered !== null) {
      const [held, holds] = await Promise.all([
        settled(this.#holdPlaces(remembered.plan)),
        remembered.stillHolds(),
      ]);
      const kept = await held().catch(() => null);
      if (kept !== null && holds) return kept;
      await kept?.release?.();
    }
    for (let attempt = 1; ; attempt++) {
      const plan = await this.#plans.make(disk);
      try {
        return await this.#holdPlaces(plan);
      } catch (error) {
        if (!(error instanceof PlanOutdated)) throw error;
        if (attempt === PLAN_ATTEMPTS)
          throw unenforceable(`the files to protect keep changing: ${error.message}`);
      }
    }
  }

  async #holdPlaces(plan: MountPlan): Promise<HeldPlan> {
    if (plan.placeholders.length === 0) return { plan, identities: NOTHING_MADE, release: null };
    return { plan, ...(await this.#placeholders.hold(plan.placeholders)) };
  }

  /** The launcher itself, executed from the memory that it is passed in. */
  #filtered(spec: SpawnSpec, path: string): SpawnSpec {
    const filter = this.#filter('restricted');
    const { argv, env } = spec;
    const own = spec.inherited ?? [];
    const descriptor = FIRST_INHERITED_FD + own.length;
    const launch = {
      path,
      argv,
      env,
      descriptor,
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

  #filter(network: NetworkMode): Buffer {
    const filter = this.#filters.get(network) ?? seccompFilter(network, this.#architecture);
    this.#filters.set(network, filter);
    return filter;
  }
}

interface HeldPlan extends Omit<ReadyPlan, 'cwd'> {
  /** Gives the placeholders back; null when there are none. */
  readonly release: SandboxedLaunch['release'];
}

type PreparedPlan = HeldPlan & ReadyPlan;

/** A start whose plan is not ready yet. */
interface UnderWay {
  readonly bwrap: string;
  /** What is built if it still holds. */
  readonly plan: MountPlan;
  readonly making: Promise<PreparedPlan>;
  readonly denialDetector: DenialScanner;
  readonly network: NetworkMode;
  readonly signal: AbortSignal | undefined;
}

type UsedBwrap = Pick<Bwrap, 'works' | 'path' | 'trusted' | 'proven'>;

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

const LAUNCHER_NAME = 'exec-server-launch';

/** Waits for an outcome, whatever it is; calling the result gives it. */
async function settled<T>(work: Promise<T>): Promise<() => Promise<T>> {
  await work.catch(() => {});
  return () => work;
}

/** Ends what has been started for a program that is not wanted any more. */
async function withoutChild(launch: SandboxedLaunch): Promise<SandboxedLaunch> {
  if (launch.spec === null) await discardChild(launch.child);
  return launch;
}

const NOTHING_MADE: HeldPlaces['identities'] = new Map();

/** Every file, readable and writable, and nothing else to say about them. */
const EVERYTHING: DiskPolicy = { base: 'write', platform: false, entries: [], denyGlobs: [] };

function diskOf({ disk }: SandboxPolicy): DiskPolicy {
  return disk === 'unrestricted' ? EVERYTHING : disk;
}

/**
 * A bwrap that sandboxed programs can replace confines none. Whoever may write everywhere is not kept from it: such a policy gives away
 * more than bwrap.
 */
function refuseWithin({ disk }: SandboxPolicy, bwrap: NativePath): void {
  if (disk === 'unrestricted') return;
  const entry = disk.entries.findLast(({ path }) => path !== '/' && isWithin(bwrap, path));
  if (entry?.access === 'write') {
    throw unenforceable(
      `the sandbox would make bwrap itself (${bwrap}) writable; install it elsewhere or narrow ${entry.path}`,
    );
  }
}
