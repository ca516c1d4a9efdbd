import { FileError } from '../../files/errors.ts';
import { childPath, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import type { Child, ExitStatus, Spawner } from '../../process/spawn/spawner.ts';
import { expectedMount, launcherImage } from '../linux/launcher.ts';
import type { Architecture } from '../linux/syscalls.ts';
import { bwrapArguments } from '../mounts/bwrap-arguments.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { COMPLAINT_BYTES } from './limits.ts';
import { type NodeRuntime, RUNTIME_DIRECTORY } from './node-runtime.ts';
import { HelperChannel } from './wire/helper-channel.ts';
import { HelperFileSystem } from './wire/helper-file-system.ts';
import type { HelperTask } from './wire/operations.ts';

/** What a helper is started from. */
export interface HelperLaunch {
  readonly spawner: Spawner;
  /** The path of bwrap. */
  readonly bwrap: string;
  readonly runtime: NodeRuntime;
  readonly plan: MountPlan;
  /** The filter of system calls, as the kernel takes it. */
  readonly filter: Uint8Array;
  readonly env: Readonly<Record<string, string>>;
  readonly architecture: Architecture;
  /** How long it may take until it answers. */
  readonly startMs: number;
}

/** A helper that answers. It ends with the server at the latest. */
export class RunningHelper {
  readonly files: HelperFileSystem;
  /** Resolves when nothing is left of it, for whatever reason. */
  readonly ended: Promise<void>;
  readonly #child: Child;
  readonly #channel: HelperChannel;
  #complaint = '';

  /** Resolves when the helper has shown that it works. Rejects with a FileError that says why it does not. */
  static async start(launch: HelperLaunch): Promise<RunningHelper> {
    const helper = new RunningHelper(await spawnHelper(launch));
    const deadline = setTimeout(() => void helper.end('did not answer in time'), launch.startMs);
    try {
      const content = Buffer.from(JSON.stringify(taskOf(launch.plan)));
      await helper.#channel.request(['prepare'], { content });
      return helper;
    } catch (error) {
      await helper.end('was not started');
      throw error;
    } finally {
      clearTimeout(deadline);
    }
  }

  private constructor(child: Child) {
    const stdin = child.stdin!;
    const [answers, complaints] = child.outputs;
    this.#child = child;
    this.#channel = new HelperChannel(
      stdin,
      () => answers!.expectReply(),
      () => void child.killTree(),
    );
    this.files = new HelperFileSystem(this.#channel);
    const streams = [
      listen(answers!, (bytes) => this.#channel.receive(bytes)),
      listen(complaints!, (bytes) => {
        this.#complaint = (this.#complaint + bytes.toString()).slice(-COMPLAINT_BYTES);
      }),
    ];
    const exited = new Promise<ExitStatus>((resolve) => child.onExit(resolve));
    // A bwrap that was killed before it had contained anything may leave a process that has its streams and waits for it for ever.
    void exited.then(() => child.killTree());
    this.ended = Promise.all([exited, ...streams]).then(([status]) => {
      this.#channel.fail(endedError(status, this.#complaint.trim()));
      child.release();
    });
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Whether it can be asked. */
  get works(): boolean {
    return this.#channel.failure === null;
  }

  /** Kills it, whatever it does. What is under way fails, because of `why`. Resolves when nothing is left of it. */
  async end(why: string): Promise<void> {
    this.#channel.fail(new FileError('failed', `fs sandbox helper failed: it ${why}`));
    await this.#child.killTree();
    await this.ended;
  }
}

/** Descriptors of bwrap; the first ones are its standard streams. */
const ARGUMENTS_FD = 3;
const FILTER_FD = 4;
const LAUNCHER_FD = 5;
const FIRST_EMPTY_FD = 6;
/** Where what starts the helper lies. */
const LAUNCHER = childPath(RUNTIME_DIRECTORY, 'launch');

/** The helper is started as programs are, so that the mounts are looked at from inside before it is. */
async function spawnHelper(launch: HelperLaunch): Promise<Child> {
  const { spawner, bwrap, runtime, plan, filter, env, architecture } = launch;
  let emptyFiles = 0;
  const mounts = bwrapArguments(plan, {
    isolateNetwork: true,
    emptyFd: () => FIRST_EMPTY_FD + emptyFiles++,
  });
  const args = [
    ...mounts,
    '--dir',
    RUNTIME_DIRECTORY,
    ...runtime.mounts.flatMap(({ source, path }) => ['--ro-bind', source, path]),
    ...['--perms', '0555', '--ro-bind-data', String(LAUNCHER_FD), LAUNCHER],
    // A client that may name any path could else write to the memory of the helper.
    ...['/proc', ...fleetingDirectories(plan)].flatMap((path) => ['--remount-ro', path]),
    '--seccomp',
    String(FILTER_FD),
  ];
  const launcher = launcherImage(
    {
      path: runtime.command[0]!,
      argv: runtime.command,
      env,
      descriptor: LAUNCHER_FD,
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
  return await spawner.spawn({
    program: bwrap,
    argv: ['bwrap', '--args', String(ARGUMENTS_FD), '--', LAUNCHER],
    cwd: '/',
    env: {},
    io: { kind: 'pipe', stdin: 'open' },
    inherited: [
      Buffer.from(args.map((arg) => `${arg}\0`).join(''), 'latin1'),
      filter,
      launcher,
      ...new Array<'empty'>(emptyFiles).fill('empty'),
    ],
    wrapper: 'contains',
  });
}

/** What a sandbox has in memory besides what the plan empties. Left writable it would fill up and be seen by the next request. */
function fleetingDirectories({ steps }: MountPlan): NativePath[] {
  const hasRoot = steps.some(({ kind }) => kind === 'emptyRoot');
  return ['/dev', ...(hasRoot ? ['/'] : [])].map(nativePathOfBytes);
}

function taskOf(plan: MountPlan): HelperTask {
  return {
    absent: plan.missing.map(({ path, byName }) => ({ path, kind: byName ? 'directory' : 'file' })),
    hidden: [RUNTIME_DIRECTORY],
    fleeting: fleetingDirectories(plan),
  };
}

/** Resolves at the end of the stream. */
function listen(source: Child['outputs'][number], onChunk: (bytes: Buffer) => void): Promise<void> {
  return new Promise((resolve) => {
    source.listen(onChunk, resolve);
    source.resume();
  });
}

/** In the words that clients know. */
function endedError({ code, signal }: ExitStatus, complaint: string): FileError {
  const status = code === null ? `signal: ${signal}` : `exit status: ${code}`;
  return new FileError(
    'failed',
    `fs sandbox helper failed with status ${status}${complaint === '' ? '' : `: ${complaint}`}`,
  );
}
