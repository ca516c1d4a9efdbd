import type { CachedCalls } from '../../native/cached-calls.ts';
import type { WaitStatus } from '../../native/libc.ts';
import type { ResourceLimits, SessionLimits } from '../resources/resource-limits.ts';

/** What a child's standard streams are connected to. */
export type ChildIo =
  | { readonly kind: 'pipe'; readonly stdin: 'open' | 'closed' }
  | { readonly kind: 'pty'; readonly rows: number; readonly cols: number };

/** Everything the operating system needs to start one program; nothing in it is interpreted by a shell. */
export interface SpawnSpec {
  /** The file to run: an absolute path, a path relative to `cwd`, or a bare name looked up on the child's PATH. */
  readonly program: string;
  /** The child's whole argument vector. Its first element is what the child sees as argv[0]; it does not select the file. */
  readonly argv: readonly string[];
  /** Absolute native path. A missing directory is an error; no other directory is ever substituted. */
  readonly cwd: string;
  /** The child's whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly io: ChildIo;
  /** What the system lets the program use; a limit that cannot be enforced is an error. Absent is no limit. */
  readonly resources?: ResourceLimits;
  /** What it lets the program use together with others, which it is counted among; absent or null is no limit. */
  readonly sessionLimits?: SessionLimits | null;
  /** What the program finds open from descriptor 3 on; nothing when absent. */
  readonly inherited?: readonly InheritedDescriptor[];
  /**
   * Set when `program` is not the one that was asked for but something that starts it. Whoever set it has checked the directory and
   * what is executed, so they are not looked at again. `becomes` executes the command in its own place. `contains` runs it, in a
   * session of its own, as the child of its only child, and ends all of its descendants with itself; signals go to the command's
   * group, and the terminal becomes the command's.
   */
  readonly wrapper?: 'becomes' | 'contains';
}

/**
 * A file of given content, readable from its beginning and executable, or an empty one, or what this process has open, or a pipe to
 * this process through which a wrapper sends its {@link Child.report}.
 */
export type InheritedDescriptor = Uint8Array | 'empty' | 'report' | { readonly fd: number };

/** How a child ended, taken from its wait status. */
export interface ExitStatus extends WaitStatus {
  /** Whether the kernel ended it for using up the memory it was given. */
  readonly outOfMemory?: boolean;
}

export type StreamName = 'stdout' | 'stderr' | 'pty';

/**
 * One output stream of a child. Delivery starts paused; nothing is read while paused, so the child blocks once its pipe is full.
 * The bytes given to `onChunk` are valid only during the call.
 */
export interface OutputSource {
  readonly name: StreamName;
  /** Must be called once, before the first `resume`. `onEnd` follows the last chunk, exactly once, also when the read fails. */
  listen(onChunk: (bytes: Buffer) => void, onEnd: () => void): void;
  pause(): void;
  resume(): void;
  /** Something was just asked of the child: what it says next is passed on without delay. */
  expectAnswer(): void;
  /** Stops reading for good and frees the descriptor; `onEnd` is called if it was not yet. */
  destroy(): void;
}

/** The writable end of a child's stdin. Writes are performed in call order. */
export interface InputSink {
  /** `done` runs when the bytes have been handed to the kernel, or with the error that prevented it. */
  write(bytes: Uint8Array, done: (error: Error | null) => void): void;
  /** Closes a pipe after the pending writes. A terminal has no end of its own and rejects it by throwing. */
  end(): void;
  /** Frees the descriptor; pending writes fail. */
  destroy(): void;
}

/** A started program. Its exit is reported once; its streams end on their own schedule. */
export interface Child {
  readonly pid: number;
  readonly outputs: readonly OutputSource[];
  /** Null when stdin is /dev/null. */
  readonly stdin: InputSink | null;
  /**
   * The first byte that came through the pipe of a wrapper, or null when that was closed without one, by the end of the wrapper at the
   * latest. Null as a whole when no such pipe was asked for. It is waited for from when it is first asked for.
   */
  readonly report: Promise<number | null> | null;
  onExit(listener: (status: ExitStatus) => void): void;
  /** Sends a signal to the child's process group. False when the group is gone. */
  signalGroup(signal: number): boolean;
  /**
   * Kills the group at once and then every descendant that left it, wherever it was reparented to, also when the child itself
   * has exited. Resolves when none is left, or after KILL_TREE_DEADLINE_MS when what is left does not react to SIGKILL.
   */
  killTree(): Promise<void>;
  /**
   * To be called when the child has exited. Resolves when nothing of it is left, as {@link killTree} does; what a wrapper contains
   * ends with it and is not looked for where the system tells at once that nothing is left.
   */
  allGone(): Promise<void>;
  /** Sets the window size of a terminal; throws for a pipe. */
  resize(rows: number, cols: number): void;
  /** Forgets the child once it has exited and its streams have ended, and frees the descriptors that are still open. */
  release(): void;
}

/** Starts programs. There is one per server; `close` ends what is left and frees the helper process. */
export interface Spawner {
  /** Whether this spawner can open terminals; when not, the reason a caller is shown. */
  readonly pty: { readonly available: true } | { readonly available: false; readonly reason: string };
  /** What the system is asked for when programs are put into sandboxes; null where it cannot be asked. */
  readonly sandboxCalls?: SandboxCalls | null;
  /** Resolves once the program image has been executed. Rejects with SpawnError. */
  spawn(spec: SpawnSpec, signal?: AbortSignal): Promise<Child>;
  close(): Promise<void>;
}

/** Calls of the system that keep order among the servers that sandbox programs on one machine. */
export interface SandboxCalls {
  /**
   * Locks an open file or directory, in place of the lock that the descriptor holds, without waiting. False when another holder is
   * in the way; the descriptor then holds none. Throws where the file system has no locks.
   */
  lock(fd: number, mode: 'shared' | 'exclusive'): boolean;
  /**
   * Has an entry removed should this process die before it is forgotten, if it is empty, has the sticky bit and nobody holds a lock on
   * it. The path is absolute, one byte per character.
   */
  removeAfterDeath(path: string, kind: 'directory' | 'file'): void;
  forgetRemoval(path: string): void;
  /** {@link CachedCalls.openPath}; null while such calls are loaded, too, and where they cannot be had. */
  openCached: CachedCalls['openPath'];
  /** A file in memory with this content, executable and closed on exec. */
  memoryFile(bytes: Uint8Array): number;
  /** A pipe whose two ends are closed on exec. */
  createPipe(): { readonly readEnd: number; readonly writeEnd: number };
  /** Whether a file of the kernel's has changed since this was asked the last time, or since it was opened; true when that cannot be told. */
  hasChanged(fd: number): boolean;
  /** Whether a started program has exited, also when nobody has been told yet. */
  hasExited(pid: number): boolean;
  /** Whether the event loop stays alive as long as a started program runs. It does for each until it is told otherwise. */
  keepLoopAlive(pid: number, keep: boolean): void;
}

/** Why a program could not be started, with the errno name where the system gave one. */
export class SpawnError extends Error {
  override readonly name = 'SpawnError';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}
