import type { CallParamsOf, NotificationParamsOf, ResultOf } from '../protocol/registry.ts';
import type { CallOptions, ExecProcess, TerminateMode } from './backend.ts';

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
}

/** What a server reports about a process. */
export type ProcessInfo = ResultOf<'process/list'>['processes'][number];

/** Options of {@link SharedProcesses.list}. */
export type ListOptions = CallOptions & Pick<NonNullable<CallParamsOf<'process/list'>>, 'scope' | 'ports'>;

/** The processes of a server, whichever client started them. Every `refOrName` is a reference or else a name. */
export interface SharedProcesses {
  /**
   * Lists the processes of this session, with the scope `owner` all processes of the owner, or with `server` all that
   * there are. Default: `owner`.
   */
  list(options?: ListOptions): Promise<readonly ProcessInfo[]>;
  /** Finds one process of the owner. Rejects with the kind `notFound`. */
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
}
