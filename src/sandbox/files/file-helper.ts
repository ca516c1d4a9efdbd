import type { Owner, SharedUnits } from '../../base/fair-shares.ts';
import { FileError } from '../../files/errors.ts';
import { childPath, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import type { Child, ExitStatus, Spawner } from '../../process/spawn/spawner.ts';
import { argumentFile, argumentsFrom, bwrapArguments, bwrapSpec } from '../linux/bwrap-arguments.ts';
import { devicesToSeal, visibleTerminals } from '../linux/devices.ts';
import { expectedMount, launcherImage } from '../linux/launcher.ts';
import type { Architecture } from '../linux/syscalls.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { HELPER_STDERR_BYTES } from './limits.ts';
import { type NodeRuntime, RUNTIME_DIRECTORY } from './node-runtime.ts';
import { HelperChannel } from './wire/helper-channel.ts';
import { HelperFileSystem } from './wire/helper-file-system.ts';
import type { HelperTask } from './wire/operations.ts';

/** Everything that a helper is started with. */
interface HelperLaunch {
  readonly spawner: Spawner;
  /** The path of bwrap. */
  readonly bwrap: string;
  readonly runtime: NodeRuntime;
  readonly plan: MountPlan;
  /** The seccomp filter in the kernel's format. */
  readonly filter: Uint8Array;
  readonly env: Readonly<Record<string, string>>;
  readonly architecture: Architecture;
  /** How long the helper may take until its first answer. */
  readonly startMs: number;
}

/** Callbacks to the owner of a helper. */
interface HelperEvents {
  /** No operation uses the helper and no file is open in it. */
  onIdle(helper: FileHelper): void;
  /** The helper and all of its processes have ended, for whatever reason. */
  onEnded(helper: FileHelper): void;
}

/**
 * A process in a sandbox that performs file operations. It counts its users: the operations in progress and the open files. It ends when
 * it has been idle for a while, and with the server at the latest.
 */
export class FileHelper {
  readonly files: HelperFileSystem;
  readonly #child: Child;
  readonly #channel: HelperChannel;
  readonly #ended: Promise<void>;
  #stderr = '';
  #users = 0;
  /** The permit for a helper in use. Its owners are those of the users. */
  #permit: SharedUnits | null = null;
  #retired = false;
  #ending = false;
  #idleMs = 0;
  #events: HelperEvents | null = null;
  #idleTimer: NodeJS.Timeout | undefined;
  #idleSince = performance.now();

  /** Resolves when the helper has answered its first request. Rejects with a FileError that says why it did not. */
  static async start(launch: HelperLaunch): Promise<FileHelper> {
    const helper = new FileHelper(await spawnHelper(launch));
    const deadline = setTimeout(() => void helper.#kill('did not answer in time'), launch.startMs);
    try {
      const content = Buffer.from(JSON.stringify(taskOf(launch.plan)));
      await helper.#channel.request(['prepare'], { content });
      return helper;
    } catch (error) {
      await helper.#kill('was not started');
      throw error;
    } finally {
      clearTimeout(deadline);
    }
  }

  private constructor(child: Child) {
    const stdin = child.stdin!;
    const [stdout, stderr] = child.outputs;
    this.#child = child;
    this.#channel = new HelperChannel(
      stdin,
      () => stdout!.expectReply(),
      () => void child.killTree(),
    );
    this.files = new HelperFileSystem(this.#channel);
    const streams = [
      listen(stdout!, (bytes) => this.#channel.receive(bytes)),
      listen(stderr!, (bytes) => {
        this.#stderr = (this.#stderr + bytes.toString()).slice(-HELPER_STDERR_BYTES);
      }),
    ];
    const exited = new Promise<ExitStatus>((resolve) => child.onExit(resolve));
    // A bwrap that was killed before its sandbox existed may leave a process that holds its streams and waits for it without a limit.
    void exited.then(() => child.killTree());
    this.#ended = Promise.all([exited, ...streams]).then(([status]) => {
      this.#channel.fail(endedError(status, this.#stderr.trim()));
      child.release();
    });
  }

  /** Registers the owner. The helper ends after it has been idle for `idleMs`. */
  own(idleMs: number, events: HelperEvents): void {
    this.#idleMs = idleMs;
    this.#events = events;
    void this.#ended.then(() => {
      clearTimeout(this.#idleTimer);
      events.onEnded(this);
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Whether the helper accepts another user. */
  get usable(): boolean {
    return !this.#retired && !this.#ending && this.#channel.failure === null;
  }

  get isIdle(): boolean {
    return this.#users === 0;
  }

  get idleSince(): number {
    return this.#idleSince;
  }

  /**
   * Adds a user. The first one needs a permit of its own, which all share from then on. Returns false without one, and when the helper is
   * not usable.
   */
  acquire(owner: Owner, permit: SharedUnits | null): boolean {
    const shared = this.#permit ?? permit;
    if (!this.usable || shared === null) return false;
    shared.join(owner);
    this.#permit = shared;
    this.#users++;
    clearTimeout(this.#idleTimer);
    return true;
  }

  /** Removes a user. */
  release(owner: Owner): void {
    this.#permit?.leave(owner);
    if (--this.#users > 0) return;
    this.#permit = null;
    this.#idleSince = performance.now();
    if (!this.usable) {
      void this.end();
      return;
    }
    this.#idleTimer = setTimeout(() => void this.end(), this.#idleMs).unref();
    this.#events?.onIdle(this);
  }

  /** Accepts no further user and ends the helper after the last one. */
  retire(): void {
    this.#retired = true;
    if (this.#users === 0) void this.end();
  }

  /** Kills the helper immediately. Operations in progress fail. Resolves when none of its processes is left. */
  async end(): Promise<void> {
    this.#ending = true;
    clearTimeout(this.#idleTimer);
    await this.#kill('was ended');
  }

  async #kill(why: string): Promise<void> {
    this.#channel.fail(new FileError('failed', `fs sandbox helper failed: it ${why}`));
    await this.#child.killTree();
    await this.#ended;
  }
}

/** Descriptors of bwrap after its standard streams. */
const ARGUMENTS_FD = 3;
const FILTER_FD = 4;
const LAUNCHER_FD = 5;
const FIRST_EMPTY_FD = 6;
/** The launcher's path in the sandbox. */
const LAUNCHER = childPath(RUNTIME_DIRECTORY, 'launch');

/** Starts the helper through the same launcher as a program, so that the launcher verifies the mounts from inside. */
async function spawnHelper(launch: HelperLaunch): Promise<Child> {
  const { spawner, bwrap, runtime, plan, filter, env, architecture } = launch;
  let emptyFiles = 0;
  const args = bwrapArguments(plan, {
    isolateNetwork: true,
    emptyFd: () => FIRST_EMPTY_FD + emptyFiles++,
    filterFd: FILTER_FD,
    launcherFile: { fd: LAUNCHER_FD, path: LAUNCHER },
    helper: {
      directory: RUNTIME_DIRECTORY,
      mounts: runtime.mounts,
      readOnly: writableAdditions(plan),
    },
  });
  const launcher = launcherImage(
    {
      path: runtime.command[0]!,
      argv: runtime.command,
      env,
      descriptor: LAUNCHER_FD,
      devices: devicesToSeal(plan),
      stdin: null,
      session: null,
      filter: null,
      listeners: null,
      mounts: plan.mounted.map(expectedMount),
      certain: false,
      cwd: null,
      report: null,
    },
    architecture,
  );
  const inherited = [argumentFile(args), filter, launcher, ...new Array<'empty'>(emptyFiles).fill('empty')];
  return await spawner.spawn({
    ...bwrapSpec(bwrap, argumentsFrom(ARGUMENTS_FD, LAUNCHER), inherited),
    io: { kind: 'pipe', stdin: 'open' },
  });
}

/**
 * The file systems that bwrap adds and leaves writable. A helper must not write to them: nothing there reaches the host, later requests
 * would see what earlier ones wrote, and with a writable /proc a client could write to the helper's memory.
 */
function writableAdditions(plan: MountPlan): NativePath[] {
  const hasRoot = plan.steps.some(({ kind }) => kind === 'emptyRoot');
  const roots = ['/proc', '/dev', ...(hasRoot ? ['/'] : [])].map(nativePathOfBytes);
  return [...roots, ...visibleTerminals(plan)];
}

function taskOf(plan: MountPlan): HelperTask {
  return {
    absent: plan.missing.map(({ path, byName }) => ({ path, kind: byName ? 'directory' : 'file' })),
    hidden: [RUNTIME_DIRECTORY],
    added: [
      ...writableAdditions(plan),
      ...plan.steps.flatMap((step) => (step.kind === 'emptyDirectory' ? [step.path] : [])),
    ],
  };
}

/** Resolves at the end of the stream. */
function listen(source: Child['outputs'][number], onChunk: (bytes: Buffer) => void): Promise<void> {
  return new Promise((resolve) => {
    source.listen(onChunk, resolve);
    source.resume();
  });
}

/** Uses the wording of the reference, which clients know. */
function endedError({ code, signal }: ExitStatus, stderr: string): FileError {
  const status = code === null ? `signal: ${signal}` : `exit status: ${code}`;
  return new FileError(
    'failed',
    `fs sandbox helper failed with status ${status}${stderr === '' ? '' : `: ${stderr}`}`,
  );
}
