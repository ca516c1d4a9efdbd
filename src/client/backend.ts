import type { NetworkPolicyDecision, NetworkPolicyDecisionEvent } from '../protocol/network.ts';
import type { CallParamsOf, ResultOf } from '../protocol/registry.ts';
import type { SandboxRequest } from '../protocol/sandbox.ts';
import type { PolicyHandler } from './connection/policy-requests.ts';
import type { ClientError } from './errors.ts';
import type { AttachedClient, ProcessAttachment, ProcessScreen } from './sharing.ts';

/**
 * Limits of one call. Whichever limit is reached first rejects the call with a {@link ClientError}. The operation
 * may still happen on the server.
 */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** The flat form of `process/start`, the processId included. */
export type StartParams = Exclude<CallParamsOf<'process/start'>, { direct: unknown } | { prepared: unknown }>;

/** Which variables of the executor's environment a program inherits. */
export type EnvPolicy = NonNullable<StartParams['envPolicy']>;
export type TerminalSize = NonNullable<StartParams['size']>;
export type OutputStream = 'stdout' | 'stderr' | 'pty';
/** The limit of the server that ended a program. */
export type LimitReason = NonNullable<ResultOf<'process/wait'>['reason']>;
export type { NetworkPolicyDecision, NetworkPolicyDecisionEvent, SandboxRequest };
export type SandboxType = ResultOf<'process/start'>['sandboxType'];
export type TerminateMode = NonNullable<CallParamsOf<'process/terminate'>['mode']>;

/**
 * An event of a process. Events arrive in order. `output`, `exited` and `closed` carry the server's sequence
 * numbers, which start at 1. `lost` replaces events that can no longer be read; the process keeps running. After
 * `failed` nothing more is known: the process may or may not still run. `closed` or `failed` is the last event, except after
 * `process.detach()`, which ends the events without either.
 * `screen` comes first, and only where it was asked for; its number is that of the last event that it includes.
 */
export type ProcessEvent =
  | {
      readonly type: 'output';
      readonly seq: number;
      readonly stream: OutputStream;
      readonly bytes: Uint8Array;
      /** When the server read it, in Unix time. Present after an attach with `withTimes`. */
      readonly timeMs?: number;
    }
  | {
      readonly type: 'exited';
      readonly seq: number;
      readonly exitCode: number;
      readonly sandboxDenied: boolean;
      /** Absent when no limit ended the program. */
      readonly reason?: LimitReason;
    }
  | { readonly type: 'closed'; readonly seq: number }
  | LostEvent
  | { readonly type: 'screen'; readonly seq: number; readonly screen: ProcessScreen }
  | { readonly type: 'failed'; readonly error: ClientError };

/**
 * The events from `fromSeq` to `toSeq`, both included, are lost. `bytes` is the size of their output, and `streamBytes`
 * the size per stream; both are null if the server does not report it. When several gaps follow each other before the
 * next output of a stream, the last one counts the lost bytes of the stream.
 */
export interface LostEvent {
  readonly type: 'lost';
  readonly fromSeq: number;
  readonly toSeq: number;
  readonly bytes: number | null;
  readonly streamBytes: Readonly<Record<OutputStream, number>> | null;
}

/** The current state of a process, as far as the client knows it. */
export interface ProcessState {
  readonly exited: boolean;
  /** 128 + n when signal n ended the program; null while it runs. */
  readonly exitCode: number | null;
  /** The signal that the exit code stands for, if any. A program can also exit with such a code by itself. */
  readonly signal: string | null;
  /** Whether this client terminated the program because of the `timeoutMs` of `spawn`. */
  readonly timedOut: boolean;
  /** The limit of the server that ended the program; null when none did. */
  readonly reason: LimitReason | null;
  readonly closed: boolean;
  readonly sandboxDenied: boolean;
  /** Why the process is no longer followed: the connection is gone for good, or `detach` was called, with the kind `closed`. */
  readonly failure: ClientError | null;
}

export interface ReadOptions extends CallOptions {
  /** Return only output after this sequence number. 0 or absent returns everything that the server retains. */
  readonly afterSeq?: number;
  readonly maxBytes?: number;
  /** How long to wait for new output. The client waits locally; no request stays open on the server. */
  readonly waitMs?: number;
}

/** Retained output. Where the protocol has `chunk` in base64, a chunk has `bytes`. */
export interface ReadPage {
  readonly chunks: readonly {
    readonly seq: number;
    readonly stream: OutputStream;
    readonly bytes: Uint8Array;
    /** When the server read it, in Unix time. Present after an attach with `withTimes`. */
    readonly timeMs?: number;
  }[];
  readonly nextSeq: number;
  readonly exited: boolean;
  readonly exitCode: number | null;
  /** The process has ended and no output follows this page. */
  readonly closed: boolean;
  readonly failure: string | null;
  readonly sandboxDenied: boolean;
  /** Absent when no limit ended the program. */
  readonly reason?: LimitReason;
}

export interface WaitOptions extends CallOptions {
  /** Default `closed`: the process has exited, and all its output has arrived. */
  readonly until?: 'exited' | 'closed';
}

export interface KeepRunningOptions extends CallOptions {
  readonly retainMs?: number;
}

/**
 * A process, local or remote, that this client started or attached to. Iterating over it yields the text of all its output; a marker
 * line replaces lost output. Dropping the object does not end the process.
 */
export interface ExecProcess extends AsyncIterable<string> {
  readonly processId: string;
  /**
   * The reference of the process on its server, with which other clients of its owner attach to it. Null where the
   * server has none.
   */
  readonly ref: string | null;
  /** The name that the process was started with. */
  readonly name: string | null;
  /** The program that this client has started, `argv[0]`. Null for a process that it has attached to. */
  readonly program: string | null;
  /** What this client may do with the process. The client that starts a process is its driver. */
  readonly role: ProcessAttachment['role'];
  /** The clients that are attached to the process, as far as the server has reported them. At most 64. */
  readonly attachedClients: readonly AttachedClient[];
  /** Null when the server did not report it. */
  readonly sandboxType: SandboxType | null;
  readonly state: ProcessState;
  /** A number that grows with every event. It is at least the highest sequence number seen so far. */
  readonly revision: number;
  /**
   * Calls the listener whenever {@link revision} grows. Returns a function that removes the listener. It keeps Node running until the
   * process ends, unless `unref` is true.
   */
  onChange(listener: () => void, options?: { readonly unref?: boolean }): () => void;
  /** Calls the listener when {@link role} or {@link attachedClients} has changed. Returns a function that removes the listener. */
  onAttachmentChange(listener: (attachment: ProcessAttachment) => void): () => void;
  /**
   * Iterates over every retained event from the first one on, then over live ones. Ends after `closed` or `failed`, and with
   * `detach`. After an attach with `afterSeq` or `screen`, the first one is where that begins. From its first step until it ends,
   * the program waits for a reader that falls behind.
   */
  events(options?: { readonly signal?: AbortSignal }): AsyncIterableIterator<ProcessEvent>;
  read(options?: ReadOptions): Promise<ReadPage>;
  /**
   * Writes to stdin. Resolves when the server has accepted the bytes; the program may read them later. Rejects with the kind
   * `stdinClosed` after `closeStdin` and after the end of the program.
   */
  write(bytes: Uint8Array | string, options?: CallOptions): Promise<void>;
  /** Closes stdin after everything that was written. Resolves with false when stdin was already closed. */
  closeStdin(options?: CallOptions): Promise<boolean>;
  signal(name: string, options?: CallOptions): Promise<void>;
  resize(rows: number, cols: number, options?: CallOptions): Promise<void>;
  /** Ends the process and all its descendants. Resolves with whether it was running. */
  terminate(mode?: TerminateMode, options?: CallOptions): Promise<boolean>;
  /** Returns the screen of the terminal as it is now. */
  screen(options?: CallOptions): Promise<ProcessScreen>;
  /** Makes this client the driver, and the present driver a viewer. */
  takeOver(options?: CallOptions): Promise<void>;
  /**
   * Keeps the process running when this client is gone, until it exits or is terminated, as `detached` of `spawn` does. Its output stays
   * readable for an hour after its end, or for `retainMs`. Rejects when it has ended.
   */
  keepRunning(options?: KeepRunningOptions): Promise<void>;
  /**
   * Stops following the process, which keeps running. Loops over its output and events end; `wait` rejects. `state.failure` has the
   * reason. The server sends no more output of a detached process, and the program no longer waits for this client.
   */
  detach(options?: CallOptions): Promise<void>;
  /** Ends the process and all its descendants; with a signal name such as `SIGINT`, only sends that signal. */
  kill(signal?: string, options?: CallOptions): Promise<void>;
  /** Waits for the end. Rejects when the process can no longer be followed. */
  wait(options?: WaitOptions): Promise<ProcessState>;
  /** Terminates a process that this client started, unless it is detached. Detaches from a process that this client attached to. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** How an executor describes itself. */
export type EnvironmentInfo = ResultOf<'environment/info'>;

/** A directory to search for capabilities. `path` is a `file:` URI on the executor. */
export type DiscoveryRoot = CallParamsOf<'capabilityRoots/discoverV1'>['roots'][number];
/** The capabilities found in a directory. */
export type DiscoveredRoot = ResultOf<'capabilityRoots/discoverV1'>['roots'][number];

/** Discovers the capabilities in directories of an executor. */
export interface CapabilityDiscovery {
  /** Returns one result per root, in the order of `roots`. A root that cannot be used has an `error`. */
  discover(roots: readonly DiscoveryRoot[], options?: CallOptions): Promise<readonly DiscoveredRoot[]>;
}

/** Options of a start. The functions are for processes with a `networkProxy`. */
export interface StartOptions extends CallOptions {
  /** Decides about the hosts of this process, instead of the client's handler. */
  readonly onNetworkPolicyRequest?: PolicyHandler | undefined;
  /** Receives the decisions about this process. */
  readonly onNetworkPolicyDecision?: ((decision: NetworkPolicyDecisionEvent) => void) | undefined;
}

/** Starts processes, locally or on a server. */
export interface ExecBackend {
  /**
   * The default working directory as a `file:` URI; null when the executor does not report one. May connect to find
   * out.
   */
  defaultCwd?(options?: CallOptions): Promise<string | null>;
  start(params: StartParams, options?: StartOptions): Promise<ExecProcess>;
}

/**
 * A request header. With `valueEnvVar` the executor appends the value of its own environment variable to `value`.
 */
export type HttpRequestHeader = NonNullable<CallParamsOf<'http/request'>['headers']>[number];
/** A response header. The name is in lower case. */
export type HttpHeader = ResultOf<'http/request'>['headers'][number];

/** An HTTP request that the executor sends. */
export interface HttpRequest {
  readonly url: string;
  /** Default `GET`. Sent unchanged. */
  readonly method?: string;
  readonly headers?: readonly HttpRequestHeader[];
  readonly body?: Uint8Array | string | null;
  /** Default `follow`, for up to ten redirects. `stop` returns the redirect response itself. */
  readonly redirect?: 'follow' | 'stop';
}

/** An HTTP response. The body is not decompressed. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: readonly HttpHeader[];
  readonly body: Uint8Array;
}

/**
 * A response whose body is still arriving, for one reader. Leaving the loop, or `cancel`, ends the request. The
 * iteration throws when the body is cut short, which includes a lost connection.
 */
export interface StreamingHttpResponse {
  readonly status: number;
  readonly headers: readonly HttpHeader[];
  readonly body: AsyncIterable<Uint8Array>;
  cancel(): void;
}

/**
 * Sends HTTP requests from the executor's network. `signal` and `timeoutMs` apply until the body ends. A request is
 * never retried.
 */
export interface ExecutorHttp {
  request(request: HttpRequest, options?: CallOptions): Promise<HttpResponse>;
  stream(request: HttpRequest, options?: CallOptions): Promise<StreamingHttpResponse>;
}

export type * from './executor-file-system.ts';
