import type { CallParamsOf, NotificationParamsOf, ResultOf } from '../protocol/registry.ts';
import type { CallOptions, ExecProcess, LimitReason, TerminalSize, TerminateMode } from './backend.ts';

/** A viewer reads. A driver also writes, resizes, signals and terminates. A process has at most one driver. */
export type ProcessRole = ResultOf<'process/attach'>['role'];

/** A client that is attached to a process. */
export type AttachedClient = NotificationParamsOf<'process/attachment'>['attached'][number];

/** The role of this client for a process, and the clients that are attached to it. */
export interface ProcessAttachment {
  /** `none`: this client is no longer attached. */
  readonly role: ProcessRole | 'none';
  /** Why the role changed. Null when only the other clients changed. */
  readonly reason: NonNullable<NotificationParamsOf<'process/attachment'>['reason']> | null;
  /** The attached clients, at most 64. Empty until the server has reported them. */
  readonly attached: readonly AttachedClient[];
  readonly attachedCount: number;
}

/** The screen of a terminal. Where the protocol has `redraw` in base64, it has bytes here. */
export type ProcessScreen = Omit<ResultOf<'process/screen'>, 'redraw'> & {
  /** Draws the screen on a new terminal of this size: text, attributes, modes, cursor, title. */
  readonly redraw: Uint8Array;
};

/** Options of {@link SharedProcesses.attach}. */
export interface AttachOptions extends CallOptions {
  /** Default `viewer`, with `takeOver` `driver`. */
  readonly role?: ProcessRole;
  /** Makes the present driver a viewer. Without it, attaching as a driver fails while there is one. */
  readonly takeOver?: boolean;
  /** Begins after this sequence number. Default: with the first event that the server retains. */
  readonly afterSeq?: number;
  /** Begins with the present screen of the terminal, as a `screen` event. The output after it follows. */
  readonly screen?: boolean;
  /**
   * How far this client may be behind before the program waits for it, while it drives. A small window keeps the way from a key to its
   * echo short while a program prints a lot. Default: 4 MiB. All handles of a process share the window of the first one.
   */
  readonly windowBytes?: number;
  /** Adds the time to every output event. */
  readonly withTimes?: boolean;
}

/** What a server reports about a process. Where the protocol has URIs and milliseconds, it has native paths and dates here. */
export interface ProcessInfo {
  /** The id on this connection: that of its session, or the `ref`. */
  readonly processId: string;
  /** Null where the server has no references. */
  readonly ref: string | null;
  readonly name: string | null;
  /** The subject of the owner's token; `local` without one. Null where the server does not report it. */
  readonly owner: string | null;
  readonly lifetime: 'session' | 'detached';
  /** The first 4,096 characters of the arguments. */
  readonly argv: readonly string[];
  /** Whether `argv` is incomplete. */
  readonly argvTruncated: boolean;
  /** A native path, or the `file:` URI of a path that is not UTF-8. */
  readonly cwd: string;
  readonly tty: boolean;
  /** The size of the terminal; null without one. */
  readonly size: TerminalSize | null;
  readonly state: ListedProcess['state'];
  readonly exitCode: number | null;
  /** The signal that the exit code stands for, if any. */
  readonly signal: string | null;
  /** The limit of the server that ended the program; null when none did. */
  readonly reason: LimitReason | null;
  readonly startedAt: Date;
  /** When the process closed; null before. */
  readonly endedAt: Date | null;
  readonly nextSeq: number;
  /** How many bytes the program has written. Null where the server does not report it. */
  readonly outputBytes: number | null;
  /** The attached clients, at most 64. */
  readonly attached: readonly AttachedClient[];
  /** The TCP ports that the program listens on; null unless `list` was called with `ports`. */
  readonly ports: readonly number[] | null;
  /** Null when the process is not recorded. */
  readonly recording: RecordingState | null;
  /** How the program is sandboxed. Null without a sandbox, and where the server does not report it. */
  readonly sandbox: SandboxInfo | null;
}

/** The sandbox of a process. `other`: a permission profile, or only the minimum sandbox of the server. */
export interface SandboxInfo {
  readonly type: 'readOnly' | 'workspaceWrite' | 'other';
  /** The directories that `workspaceWrite` makes writable, `file:` URIs, with the temporary ones. */
  readonly writableRoots: readonly string[];
  /** Paths that a permission profile does not make writable, although they may be below such a directory; `file:` URIs. */
  readonly readOnlyPaths: readonly string[];
  /** Whether the program can reach a network or a proxy. */
  readonly networkAccess: boolean;
}

/** The recording of a process. `incomplete`: output or the exit status is missing; markers in it say where. */
export type RecordingState = NonNullable<ListedProcess['recording']>;

type ListedProcess = ResultOf<'process/list'>['processes'][number];

/** Options of {@link SharedProcesses.list}. */
export type ListOptions = CallOptions & Pick<NonNullable<CallParamsOf<'process/list'>>, 'scope' | 'ports'>;

/** The processes of a server, whichever client started them. Every `refOrName` is a reference or else a name. */
export interface SharedProcesses {
  /**
   * Lists the processes of this session, with the scope `owner` all processes of the owner, or with `server` all that
   * there are. Default: `owner`.
   */
  list(options?: ListOptions): Promise<readonly ProcessInfo[]>;
  /**
   * Finds one process of the owner; with the scope `observe` also one of another owner, by its reference. Rejects with the kind
   * `notFound`.
   */
  get(refOrName: string, options?: CallOptions): Promise<ProcessInfo>;
  /**
   * Attaches to a process. The result has the same members as a started process, and follows it across lost
   * connections in the same way.
   */
  attach(refOrName: string, options?: AttachOptions): Promise<ExecProcess>;
  /** Sends a signal to a process without attaching to it. */
  signal(refOrName: string, signal: string, options?: CallOptions): Promise<void>;
  /** Terminates a process without attaching to it. Resolves with whether it was running. */
  terminate(refOrName: string, mode?: TerminateMode, options?: CallOptions): Promise<boolean>;
  /** Removes a process that has ended, with its retained output. Rejects while it runs. */
  forget(refOrName: string, options?: CallOptions): Promise<void>;
}
