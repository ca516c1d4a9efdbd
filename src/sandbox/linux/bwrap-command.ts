import { type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import { limitsAnything, NO_RESOURCE_LIMITS } from '../../process/resources/resource-limits.ts';
import type { InheritedDescriptor, SpawnSpec } from '../../process/spawn/spawner.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { argumentFile, argumentsFrom, bwrapArguments, bwrapSpec, canBuildAhead } from './bwrap-arguments.ts';
import type { ExpectedMount } from './data-segment.ts';
import { descriptorPath } from './descriptors.ts';
import { devicesToSeal, NULL_DEVICE, visibleDevices } from './devices.ts';
import type { Instructions } from './instructions.ts';
import { expectedMount, launcherImage } from './launcher.ts';
import type { HeldPlaceholders } from './placeholders.ts';
import type { NetworkMode } from './seccomp.ts';
import type { Architecture } from './syscalls.ts';

/** The network of a program that can only reach its proxy. */
export interface Proxied {
  /** The proxy ports on 127.0.0.1 in the program's network namespace. */
  readonly ports: readonly number[];
  /** The unix socket to which the launcher sends the listening sockets. */
  readonly mailbox: number;
}

/** A plan whose placeholders all exist. */
export interface ReadyPlan {
  readonly plan: MountPlan;
  readonly identities: HeldPlaceholders['identities'];
  /** The working directory of the program, with links resolved. */
  readonly cwd: NativePath;
}

/** What bwrap reads: its arguments, and the launcher that it executes. */
export interface BwrapInput {
  readonly args: Buffer;
  readonly launcher: Buffer;
}

/**
 * The bwrap command for one program. Everything about the program is passed in descriptors: other users can read a command line, and
 * variables for the dynamic loader (LD_PRELOAD) must not reach bwrap.
 */
export class BwrapCommand {
  readonly #spec: SpawnSpec;
  readonly #path: string;
  readonly #network: NetworkMode;
  readonly #proxied: Proxied | null;
  readonly #plan: MountPlan;
  readonly #layout: Layout;

  /** `path` is the executable. `plan` determines the descriptors, and is the plan for pre-building. */
  constructor(spec: SpawnSpec, path: string, plan: MountPlan, network: NetworkMode, proxied: Proxied | null) {
    this.#spec = spec;
    this.#path = path;
    this.#network = network;
    this.#proxied = proxied;
    this.#plan = plan;
    this.#layout = layoutOf(plan, spec, proxied);
  }

  /**
   * Identifies how bwrap is started. A pre-built sandbox fits every program with the same plan and the same key. Null when no sandbox can
   * be pre-built for this program.
   */
  get poolKey(): string | null {
    const { io, inherited = [], resources = NO_RESOURCE_LIMITS, sessionLimits = null } = this.#spec;
    if (io.kind === 'pty' || inherited.length > 0 || this.#proxied !== null) return null;
    if (sessionLimits !== null || limitsAnything(resources) || !canBuildAhead(this.#plan)) return null;
    return `stdin ${io.stdin}, network ${this.#network}`;
  }

  /** How to start bwrap. It reads its input from the two descriptors. */
  launchSpec(
    bwrap: string,
    { launcher, args }: Readonly<Record<keyof BwrapInput, InheritedDescriptor>>,
    filter: Buffer,
  ): SpawnSpec {
    return this.#wrapper(bwrap, [launcher, args, filter, 'report']);
  }

  /** How to start bwrap so that it builds most of the sandbox and waits for instructions. Only if {@link poolKey} is not null. */
  prebuildSpec(bwrap: string, { launcher, pipe }: Instructions['inherited'], filter: Buffer): SpawnSpec {
    const args = this.#arguments(this.#plan, this.#layout, this.#layout.gate);
    return this.#wrapper(bwrap, [launcher, args, filter, 'report', pipe]);
  }

  /** What bwrap reads. Null when the plan needs other descriptors than the plan that bwrap was started for. */
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
   * What a pre-built sandbox of the same plan reads. Other processes may have replaced files since, which removes mounts, so the launcher
   * must be certain that each mount still exists.
   */
  prebuiltInput(ready: ReadyPlan, architecture: Architecture): BwrapInput {
    return { args: NOTHING, launcher: this.#launcher(ready, architecture, true) };
  }

  #launcher({ plan, identities, cwd }: ReadyPlan, architecture: Architecture, certain: boolean): Buffer {
    const { launcherFd, report, mailbox, firstFree } = this.#layout;
    const { argv, env, io } = this.#spec;
    const listeners = this.#proxied === null ? null : { ports: this.#proxied.ports, mailbox, firstFree };
    const session = io.kind === 'pty' ? 'withTerminal' : 'withoutTerminal';
    const launch = { path: this.#path, argv, env, descriptor: launcherFd, session, filter: null } as const;
    const mounts = expectedMounts(plan, identities);
    const devices = devicesToSeal(plan);
    // bwrap gets an empty file instead: through the host's /dev/null a program could change that file. It stays stdin if /dev is hidden.
    const isNull = io.kind === 'pipe' && io.stdin === 'closed' && visibleDevices(plan).includes(NULL_DEVICE);
    const stdin = isNull ? NULL_DEVICE : null;
    return launcherImage(
      { ...launch, devices, stdin, listeners, mounts, certain, cwd, report },
      architecture,
    );
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
 * The descriptors that bwrap inherits, and what it executes. Those of the program come first, with the numbers that it expects. Empty files
 * come last: opening one may overwrite a descriptor number of this process that has not been passed on yet.
 */
interface Layout {
  readonly launcherFd: number;
  readonly argumentsFd: number;
  readonly filterFd: number;
  readonly report: number;
  /** Valid for a proxied program. */
  readonly mailbox: number;
  /** Valid for a pre-built sandbox, which has no mailbox. The empty files follow. */
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
    firstFree: firstEmptyFd + emptyFiles + DESCRIPTOR_HEADROOM,
    executed: hidesProcesses ? LAUNCHER_FILE : descriptorPath(launcherFd),
  };
}

const NOTHING = Buffer.alloc(0);

/** The first descriptor after the standard streams. */
export const FIRST_INHERITED_FD = 3;
/** Descriptors that bwrap may have opened after the inherited ones. */
const DESCRIPTOR_HEADROOM = 16;
/** The path of a launcher that cannot be executed through its descriptor. */
const LAUNCHER_FILE = nativePathOfBytes('/dev/.exec-server-launch');

/** The mounts that the launcher verifies. The identity of a placeholder is known only after it was created. */
function expectedMounts(plan: MountPlan, identities: HeldPlaceholders['identities']): ExpectedMount[] {
  const made = new Set(plan.placeholders.filter(({ kind }) => kind === 'directory').map(({ path }) => path));
  return plan.mounted.map(({ path, identity }) =>
    expectedMount({ path, identity: made.has(path) ? identities.get(path)! : identity }),
  );
}
