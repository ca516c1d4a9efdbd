import { realpath } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { isWithin, type NativePath, nativePathOfBytes, nativePathOfText } from '../../files/native-path.ts';
import { cancelled, checkLaunch, rejectNulBytes } from '../../process/spawn/launch-checks.ts';
import { LaunchMemory } from '../../process/spawn/launch-memory.ts';
import type { Child, EnclosingCalls, SpawnSpec } from '../../process/spawn/spawner.ts';
import type { Enclosure } from '../../process/start-program.ts';
import { DenialScanner } from '../denial.ts';
import { unenforceable } from '../errors.ts';
import { bwrapArguments } from '../mounts/bwrap-arguments.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { PlanMemory } from '../mounts/plan-memory.ts';
import { type DiskPolicy, isFullWrite, type SandboxPolicy } from '../policy/policy.ts';
import { type Bwrap, descriptorPath } from './bwrap.ts';
import { expectedMount, type Launch, LaunchReport, launcherImage } from './launcher.ts';
import { ABANDONED_DEADLINE_MS, PLAN_ATTEMPTS } from './limits.ts';
import { Placeholders, PlanOutdated } from './placeholders.ts';
import { type NetworkMode, seccompFilter } from './seccomp.ts';
import type { Architecture } from './syscalls.ts';

/**
 * Puts programs into sandboxes of Linux: bwrap gives them a file tree, processes and a network of their own, and a filter of system
 * calls. A program that may write everywhere gets the filter alone, and one that may use the network as well runs as it is.
 */
export class LinuxEncloser {
  readonly #architecture: Architecture;
  readonly #bwrap: Bwrap;
  readonly #placeholders: Placeholders;
  readonly #memory = new LaunchMemory(() => performance.now());
  readonly #plans = new PlanMemory();
  readonly #filters = new Map<NetworkMode, Buffer>();
  /** Enclosures that nobody waits for any more. As many as there are starts under way, at most. */
  readonly #abandoned = new Set<Promise<void>>();

  constructor(calls: EnclosingCalls, bwrap: Bwrap, architecture: Architecture) {
    this.#architecture = architecture;
    this.#bwrap = bwrap;
    this.#placeholders = new Placeholders(calls);
  }

  /**
   * What to start in place of the program so that it is confined to the policy. Rejects with SpawnError for what would be wrong with
   * the program without a sandbox, with SandboxError when the policy cannot be kept. When `signal` aborts it rejects at once and
   * clears away later what it was about to make.
   */
  async encloseProgram(
    spec: SpawnSpec,
    policy: SandboxPolicy,
    network: NetworkMode,
    signal?: AbortSignal,
    proxied: Proxied | null = null,
  ): Promise<Enclosure> {
    const enclosing = this.#enclose(spec, policy, network, proxied, signal);
    return signal === undefined ? enclosing : this.#untilAborted(enclosing, signal);
  }

  /** Resolves when what was made for starts that were given up is cleared away, or does not come to an end. */
  async close(): Promise<void> {
    const deadline = new AbortController();
    const expired = delay(ABANDONED_DEADLINE_MS, null, { signal: deadline.signal }).catch(() => null);
    await Promise.race([Promise.all(this.#abandoned), expired]);
    deadline.abort();
  }

  async #enclose(
    spec: SpawnSpec,
    policy: SandboxPolicy,
    network: NetworkMode,
    proxied: Proxied | null,
    signal?: AbortSignal,
  ): Promise<Enclosure> {
    const judge = new DenialScanner();
    const fullWrite = isFullWrite(policy);
    if (fullWrite && network === 'enabled') return { spec, judge, release: null };
    const path = await this.#checkedPath(spec, signal);
    if (fullWrite && network === 'restricted')
      return { spec: this.#filtered(spec, path), judge, release: null };
    const bwrap = await this.#bwrap.path();
    refuseWithin(policy, nativePathOfText(bwrap));
    const [place, { plan, release }] = await Promise.all([
      settled(realpath(spec.cwd, 'latin1')),
      this.#makeReady(diskOf(policy)),
    ]);
    try {
      const cwd = nativePathOfBytes(await place());
      const containment = { spec, path, bwrap, cwd, plan, network, proxied };
      return { spec: this.#contained(containment), judge, entered: hasEntered, release };
    } catch (error) {
      await release?.();
      throw error;
    }
  }

  async #untilAborted(enclosing: Promise<Enclosure>, signal: AbortSignal): Promise<Enclosure> {
    let onAbort = () => {};
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => reject(cancelled('aborted'));
    });
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      if (signal.aborted) onAbort();
      return await Promise.race([enclosing, aborted]);
    } catch (error) {
      if (signal.aborted) this.#abandon(enclosing);
      throw error;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  #abandon(enclosing: Promise<Enclosure>): void {
    const cleared = enclosing
      .then(({ release }) => release?.())
      .catch(() => {})
      .finally(() => this.#abandoned.delete(cleared));
    this.#abandoned.add(cleared);
  }

  async #checkedPath(spec: SpawnSpec, signal?: AbortSignal): Promise<string> {
    if (this.#memory.knows(spec)) {
      rejectNulBytes(spec);
      return spec.program;
    }
    const path = await checkLaunch(spec, signal);
    this.#memory.add(spec);
    return path;
  }

  async #makeReady(disk: DiskPolicy): Promise<ReadyPlan> {
    const remembered = this.#plans.recall(disk);
    if (remembered !== null) {
      const [held, holds] = await Promise.all([
        settled(this.#hold(remembered.plan)),
        remembered.stillHolds(),
      ]);
      const ready = await held().catch(() => null);
      if (ready !== null && holds) return ready;
      await ready?.release?.();
    }
    for (let attempt = 1; ; attempt++) {
      const plan = await this.#plans.make(disk);
      try {
        return await this.#hold(plan);
      } catch (error) {
        if (!(error instanceof PlanOutdated)) throw error;
        if (attempt === PLAN_ATTEMPTS)
          throw unenforceable(`the files to protect keep changing: ${error.message}`);
      }
    }
  }

  async #hold(plan: MountPlan): Promise<ReadyPlan> {
    if (plan.placeholders.length === 0) return { plan, release: null };
    return { plan, release: await this.#placeholders.hold(plan.placeholders) };
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

  /**
   * bwrap, with everything that concerns the program in descriptors: other users can read a command line, and what an environment
   * says to the loader of programs must not be said to bwrap.
   */
  #contained({ spec, path, bwrap, cwd, plan, network, proxied }: Containment): SpawnSpec {
    const session = spec.io.kind === 'pty' ? 'withTerminal' : 'withoutTerminal';
    const { argv, env } = spec;
    // What is meant for the program comes first, where it expects it.
    const own = spec.inherited ?? [];
    const launcherFd = FIRST_INHERITED_FD + own.length;
    const [argumentsFd, filterFd, firstEmptyFd] = [launcherFd + 1, launcherFd + 2, launcherFd + 3] as const;
    const empties: 'empty'[] = [];
    const emptyFd = () => firstEmptyFd + empties.push('empty') - 1;
    const mounts = bwrapArguments(plan, { isolateNetwork: network !== 'enabled', cwd, emptyFd });
    const executed = hidesProcesses(plan) ? LAUNCHER_FILE : descriptorPath(launcherFd);
    const launcher =
      executed === LAUNCHER_FILE ? ['--perms', '0555', '--ro-bind-data', String(launcherFd), executed] : [];
    const report = firstEmptyFd + empties.length;
    const mailbox = report + 1;
    const listeners =
      proxied === null ? null : { ports: proxied.ports, mailbox, firstFree: mailbox + SPARE_DESCRIPTORS };
    const launch: Launch = {
      path,
      argv,
      env,
      descriptor: launcherFd,
      session,
      filter: null,
      listeners,
      mounts: plan.mounted.map(expectedMount),
      report,
    };
    const args = [...mounts, ...launcher, '--seccomp', String(filterFd)];
    return {
      ...spec,
      program: bwrap,
      argv: ['bwrap', '--args', String(argumentsFd), '--', executed],
      cwd: '/',
      env: {},
      inherited: [
        ...own,
        launcherImage(launch, this.#architecture),
        Buffer.from(args.map((arg) => `${arg}\0`).join(''), 'latin1'),
        this.#filter(network),
        ...empties,
        'report',
        ...(proxied === null ? [] : [{ fd: proxied.mailbox }]),
      ],
      wrapper: 'contains',
    };
  }

  #filter(network: NetworkMode): Buffer {
    const filter = this.#filters.get(network) ?? seccompFilter(network, this.#architecture);
    this.#filters.set(network, filter);
    return filter;
  }
}

/** A plan with all of its placeholders in place. */
interface ReadyPlan {
  readonly plan: MountPlan;
  readonly release: Enclosure['release'];
}

/** What a program gets that may use the network by way of its proxy only. */
export interface Proxied {
  /** The ports of its own 127.0.0.1 on which it finds proxies. */
  readonly ports: readonly number[];
  /** The unix socket to which the sockets that listen there are sent. */
  readonly mailbox: number;
}

interface Containment {
  readonly spec: SpawnSpec;
  readonly path: string;
  readonly bwrap: string;
  readonly cwd: NativePath;
  readonly plan: MountPlan;
  readonly network: NetworkMode;
  readonly proxied: Proxied | null;
}

const LAUNCHER_NAME = 'exec-server-launch';
const FIRST_INHERITED_FD = 3;
/** Descriptors that bwrap may have left open behind those it was given. */
const SPARE_DESCRIPTORS = 16;
/** Where a launcher is put that cannot be executed through its descriptor. */
const LAUNCHER_FILE = '/dev/.exec-server-launch';

/** Waits for an outcome, whatever it is; calling the result gives it. */
async function settled<T>(work: Promise<T>): Promise<() => Promise<T>> {
  await work.catch(() => {});
  return () => work;
}

/**
 * Where bwrap ends before the launcher runs, what it was to mount may have been exchanged or removed a moment ago. Nothing is read into
 * what it says: if something else keeps it from working, that holds for the next attempt as well.
 */
async function hasEntered({ report }: Child): Promise<boolean> {
  return (await report) === LaunchReport.mountsChecked;
}

function hidesProcesses(plan: MountPlan): boolean {
  return plan.steps.some((step) => step.kind === 'emptyDirectory' && step.path === '/proc');
}

/** Every file, readable and writable, and nothing else to say about them. */
const EVERYTHING: DiskPolicy = { base: 'write', platform: false, entries: [], denyGlobs: [] };

function diskOf({ disk }: SandboxPolicy): DiskPolicy {
  return disk === 'unrestricted' ? EVERYTHING : disk;
}

/**
 * A bwrap that confined programs can replace confines none. Whoever may write everywhere is not kept from it: such a policy gives away
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
