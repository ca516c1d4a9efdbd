import type { Owner } from '../../base/fair-shares.ts';
import type { CachedCalls } from '../../native/cached-calls.ts';
import type { WaitStatus } from '../../native/libc.ts';
import type { ResourceLimits, SessionLimits } from '../resources/resource-limits.ts';
import type { ProcessTree } from '../tree/kill-tree.ts';

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
  /** What the program may use. A limit that cannot be enforced is an error. No limit when absent. */
  readonly resources?: ResourceLimits;
  /** What the program and others of its session may use together. No limit when absent or null. */
  readonly sessionLimits?: SessionLimits | null;
  /** The session of the program. What it uses of pools that all sessions share counts for it. */
  readonly owner?: Owner;
  /** Open files for descriptor 3 and following; none when absent. */
  readonly inherited?: readonly InheritedDescriptor[];
  /**
   * Set when `program` is not the requested program but a wrapper that starts it. The caller has checked the directory and the
   * wrapper, so the spawner does not check them again. `becomes` executes the command in its own process. `contains` runs it in a
   * separate session as the child of its only child, and ends all descendants with itself; signals go to the command's process
   * group, and the terminal belongs to the command.
   */
  readonly wrapper?: 'becomes' | 'contains';
}

/**
 * A file with this content, executable and readable from its beginning; or an empty file; or an open file of this process; or a
 * pipe through which a wrapper sends its {@link Child.report}.
 */
export type InheritedDescriptor = Uint8Array | 'empty' | 'report' | { readonly fd: number };

/** How a child ended, from its wait status. */
export interface ExitStatus extends WaitStatus {
  /** Whether the kernel killed it because it exceeded its memory limit. */
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
  /** The child was just written to: delivers its next output without delay. */
  expectReply(): void;
  /**
   * Delivers what is readable now and then calls `done`, possibly within this call. Output that arrives later is not waited for, so a
   * writer that never stops delays `done` by a bounded amount. While paused, or when paused meanwhile, it continues with the next
   * `resume`, unless `whilePaused` is true. Called once, when the child has exited.
   */
  drainReadable(done: () => void, whilePaused?: boolean): void;
  /** Stops reading permanently and frees the descriptor; calls `onEnd` if that has not happened. */
  destroy(): void;
}

/** The writable end of a child's stdin. Writes are performed in call order. */
export interface InputSink {
  /** Calls `done` when the kernel has the bytes, or with the error. */
  write(bytes: Uint8Array, done: (error: Error | null) => void): void;
  /** Closes a pipe after the pending writes. Throws for a terminal, which has no end of input. */
  end(): void;
  /** Frees the descriptor; pending writes fail. */
  destroy(): void;
}

/** A started program. Its exit is reported once; its streams end on their own schedule. */
export interface Child {
  readonly pid: number;
  /** The program and its descendants. */
  readonly tree: ProcessTree;
  readonly outputs: readonly OutputSource[];
  /** Null when stdin is /dev/null. */
  readonly stdin: InputSink | null;
  /**
   * The first byte that a wrapper sent through its report pipe; null when the pipe closed without one, at the latest when the wrapper
   * exits. The property is null when no pipe was requested. Waiting starts on first access.
   */
  readonly report: Promise<number | null> | null;
  onExit(listener: (status: ExitStatus) => void): void;
  /** Sends a signal to the child's process group. False when the group is gone. */
  signalGroup(signal: number): boolean;
  /**
   * Kills the group and then every descendant that left it, wherever it was reparented to, even after the child itself has exited.
   * Resolves when none is left, or after KILL_TREE_DEADLINE_MS when the rest does not react to SIGKILL.
   */
  killTree(): Promise<void>;
  /**
   * Called after the child has exited. Resolves when nothing of its tree is left, like {@link killTree}. What a wrapper contains
   * ends with it; when the kernel shows that nothing is left the tree is not searched.
   */
  waitForTreeExit(): Promise<void>;
  /** Sets the window size of a terminal; throws for a pipe. */
  resize(rows: number, cols: number): void;
  /** Frees the open descriptors of a child that has exited and whose streams have ended. */
  release(): void;
}

/** Starts programs. There is one per server; `close` kills what is left and ends the watchdog. */
export interface Spawner {
  /** Whether this spawner can open terminals; otherwise the reason that clients are shown. */
  readonly pty: { readonly available: true } | { readonly available: false; readonly reason: string };
  /** Reads the tag of a process; absent where programs are not tagged. */
  readonly readTag?: (pid: number) => bigint | null;
  /** System calls for sandboxes; null where they are not available. */
  readonly sandboxCalls?: SandboxCalls | null;
  /** Resolves once the program image has been executed. Rejects with SpawnError. */
  spawn(spec: SpawnSpec, signal?: AbortSignal): Promise<Child>;
  close(): Promise<void>;
}

/** System calls that sandboxes need, some of which coordinate the servers of one machine. */
export interface SandboxCalls {
  /**
   * Replaces the lock that the descriptor holds on a file or directory, without waiting. False when another holder prevents it; the
   * descriptor holds no lock then. Throws when the file system does not support locks.
   */
  lock(fd: number, mode: 'shared' | 'exclusive'): boolean;
  /**
   * Has the watchdog remove a directory entry if this process dies, until the returned function is called. The watchdog removes only an
   * empty entry with the sticky bit on which no process holds a lock. The path is absolute, one byte per character. Throws when the
   * watchdog cannot be started or the path is too long.
   */
  removeAfterDeath(path: string, kind: 'directory' | 'file'): () => void;
  /** {@link CachedCalls.openPath}; also null while the calls are being loaded and where they are not available. */
  openCached: CachedCalls['openPath'];
  /** A file in memory with this content, executable and closed on exec. */
  memoryFile(bytes: Uint8Array): number;
  /** A pipe whose two ends are closed on exec. */
  createPipe(): { readonly readEnd: number; readonly writeEnd: number };
  /** Whether a kernel file has changed since the last call or since it was opened; true when that is unknown. */
  hasChanged(fd: number): boolean;
  /** Whether a started program has exited, even if its exit has not been reported. */
  hasExited(pid: number): boolean;
  /** Sets whether a running program keeps the event loop alive; each does at first. */
  keepLoopAlive(pid: number, keep: boolean): void;
}

/** A program could not be started. The code is the errno name where there is one. */
export class SpawnError extends Error {
  override readonly name = 'SpawnError';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}
