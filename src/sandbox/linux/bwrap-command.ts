import { type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import { limitsAnything, NO_RESOURCE_LIMITS } from '../../process/resources/resource-limits.ts';
import type { InheritedDescriptor, SpawnSpec } from '../../process/spawn/spawner.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { argumentFile, argumentsFrom, bwrapArguments, bwrapSpec, canBuildAhead } from './bwrap-arguments.ts';
import type { ExpectedMount } from './data-segment.ts';
import { descriptorPath } from './descriptors.ts';
import type { Instructions } from './instructions.ts';
import { expectedMount, launcherImage } from './launcher.ts';
import type { HeldPlaces } from './placeholders.ts';
import type { NetworkMode } from './seccomp.ts';
import type { Architecture } from './syscalls.ts';

/** What a program gets that may use the network by way of its proxy only. */
export interface Proxied {
  /** The ports of its own 127.0.0.1 on which it finds proxies. */
  readonly ports: readonly number[];
  /** The unix socket to which the sockets that listen there are sent. */
  readonly mailbox: number;
}

/** A plan with all of its placeholders in place. */
export interface ReadyPlan {
  readonly plan: MountPlan;
  readonly identities: HeldPlaces['identities'];
  /** Where the program starts, without links. */
  readonly cwd: NativePath;
}

/** What bwrap reads: its arguments, and what it executes. */
export interface BwrapInput {
  readonly args: Buffer;
  readonly launcher: Buffer;
}

/**
 * A program that bwrap is started for, with everything that concerns it in descriptors: other users can read a command line, and what
 * an environment says to the loader of programs must not be said to bwrap.
 */
export class BwrapCommand {
  readonly #spec: SpawnSpec;
  readonly #path: string;
  readonly #network: NetworkMode;
  readonly #proxied: Proxied | null;
  readonly #plan: MountPlan;
  readonly #layout: Layout;

  /** `path` is what is executed. The plan decides over descriptors, and is built ahead. */
  constructor(spec: SpawnSpec, path: string, plan: MountPlan, network: NetworkMode, proxied: Proxied | null) {
    this.#spec = spec;
    this.#path = path;
    this.#network = network;
    this.#proxied = proxied;
    this.#plan = plan;
    this.#layout = layoutOf(plan, spec, proxied);
  }

  /**
   * Names how bwrap is started: a sandbox that was built ahead for a program is fit for every other under the same plan whose bwrap is
   * started like that. Null when nothing can be built ahead for this one.
   */
  get kind(): string | null {
    const { io, inherited = [], resources = NO_RESOURCE_LIMITS, sessionLimits = null } = this.#spec;
    if (io.kind === 'pty' || inherited.length > 0 || this.#proxied !== null) return null;
    if (sessionLimits !== null || limitsAnything(resources) || !canBuildAhead(this.#plan)) return null;
    return `stdin ${io.stdin}, network ${this.#network}`;
  }

  /** How bwrap is started. It finds what it reads in the two descriptors. */
  wrapper(
    bwrap: string,
    { launcher, args }: Readonly<Record<keyof BwrapInput, InheritedDescriptor>>,
    filter: Buffer,
  ): SpawnSpec {
    return this.#wrapper(bwrap, [launcher, args, filter, 'report']);
  }

  /** How bwrap is started to build what it can, and to wait for its instructions. Only where there is a {@link kind}. */
  wrapperAhead(bwrap: string, { launcher, pipe }: Instructions['inherited'], filter: Buffer): SpawnSpec {
    const args = this.#arguments(this.#plan, this.#layout, this.#layout.gate);
    return this.#wrapper(bwrap, [launcher, args, filter, 'report', pipe]);
  }

  /** What bwrap reads. Null when the plan takes other descriptors than the one that bwrap was started for. */
  input(ready: ReadyPlan, architecture: Architecture): BwrapInput | null {
    const layout = layoutOf(ready.plan, this.#spec, this.#proxied);
    const { emptyFiles, executed } = this.#layout;
    if (emptyFiles !== layout.emptyFiles || executed !== layout.executed) return null;
    return {
      args: this.#arguments(ready.plan, layout),
      launcher: this.#launcher(ready, architecture, false),
    };
  }

  /**
   * What bwrap reads and executes that has built the same plan ahead. What was mounted then is what others undo who exchange files, so
   * that it has to be certain that it is still there.
   */
  inputAhead(ready: ReadyPlan, architecture: Architecture): BwrapInput {
    return { args: NOTHING, launcher: this.#launcher(ready, architecture, true) };
  }

  #launcher({ plan, identities, cwd }: ReadyPlan, architecture: Architecture, certain: boolean): Buffer {
    const { launcherFd, report, mailbox, firstFree } = this.#layout;
    const { argv, env, io } = this.#spec;
    const listeners = this.#proxied === null ? null : { ports: this.#proxied.ports, mailbox, firstFree };
    const session = io.kind === 'pty' ? 'withTerminal' : 'withoutTerminal';
    const launch = { path: this.#path, argv, env, descriptor: launcherFd, session, filter: null } as const;
    const mounts = expectedMounts(plan, identities);
    return launcherImage({ ...launch, listeners, mounts, certain, cwd, report }, architecture);
  }

  #wrapper(bwrap: string, descriptors: readonly InheritedDescriptor[]): SpawnSpec {
    const { argumentsFd, executed, emptyFiles } = this.#layout;
    const inherited = [
      ...(this.#spec.inherited ?? []),
      ...descriptors,
      ...(this.#proxied === null ? [] : [{ fd: this.#proxied.mailbox }]),
      ...new Array<'empty'>(emptyFiles).fill('empty'),
    ];
    return { ...this.#spec, ...bwrapSpec(bwrap, argumentsFrom(argumentsFd, executed), inherited) };
  }

  #arguments(
    plan: MountPlan,
    { launcherFd, filterFd, firstEmptyFd, executed }: Layout,
    gate?: number,
  ): Buffer {
    let empties = 0;
    const args = bwrapArguments(plan, {
      isolateNetwork: this.#network !== 'enabled',
      emptyFd: () => (gate === undefined ? firstEmptyFd : gate + 1) + empties++,
      filterFd,
      launcherFile: executed === LAUNCHER_FILE ? { fd: launcherFd, path: LAUNCHER_FILE } : null,
      ...(gate === undefined ? {} : { gate }),
    });
    return argumentFile(args);
  }
}

/**
 * Which descriptors bwrap finds open, and what it executes. What is meant for the program comes first, where it expects it. Empty files
 * come last: each is opened in its place, over whatever this process had there that has not been handed on yet.
 */
interface Layout {
  readonly launcherFd: number;
  readonly argumentsFd: number;
  readonly filterFd: number;
  readonly report: number;
  /** Where there is one. */
  readonly mailbox: number;
  /** Where there is one, and no mailbox; empty files come behind it. */
  readonly gate: number;
  readonly firstEmptyFd: number;
  readonly emptyFiles: number;
  readonly firstFree: number;
  readonly executed: NativePath;
}

function layoutOf({ steps }: MountPlan, { inherited = [] }: SpawnSpec, proxied: Proxied | null): Layout {
  const launcherFd = FIRST_INHERITED_FD + inherited.length;
  const report = launcherFd + 3;
  const mailbox = report + 1;
  const firstEmptyFd = proxied === null ? mailbox : mailbox + 1;
  const emptyFiles = steps.filter(({ kind }) => kind === 'emptyFile').length;
  const hidesProcesses = steps.some((step) => step.kind === 'emptyDirectory' && step.path === '/proc');
  return {
    launcherFd,
    argumentsFd: launcherFd + 1,
    filterFd: launcherFd + 2,
    report,
    mailbox,
    gate: mailbox,
    firstEmptyFd,
    emptyFiles,
    firstFree: firstEmptyFd + emptyFiles + SPARE_DESCRIPTORS,
    executed: hidesProcesses ? LAUNCHER_FILE : descriptorPath(launcherFd),
  };
}

const NOTHING = Buffer.alloc(0);

/** The first descriptor behind the standard streams. */
export const FIRST_INHERITED_FD = 3;
/** Descriptors that bwrap may have left open behind those it was given. */
const SPARE_DESCRIPTORS = 16;
/** Where a launcher is put that cannot be executed through its descriptor. */
const LAUNCHER_FILE = nativePathOfBytes('/dev/.exec-server-launch');

/** What the plan mounts. A directory that was made for it is one that nobody could know before. */
function expectedMounts(plan: MountPlan, identities: HeldPlaces['identities']): ExpectedMount[] {
  const made = new Set(plan.placeholders.filter(({ kind }) => kind === 'directory').map(({ path }) => path));
  return plan.mounted.map(({ path, identity }) =>
    expectedMount({ path, identity: made.has(path) ? identities.get(path)! : identity }),
  );
}
