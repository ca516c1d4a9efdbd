import type { NetworkPolicyDecision, NetworkPolicyDecisionEvent } from '../protocol/network.ts';
import type { CallParamsOf, NotificationParamsOf, ResultOf } from '../protocol/registry.ts';
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
export type WriteStatus = ResultOf<'process/write'>['status'];
export type { NetworkPolicyDecision, NetworkPolicyDecisionEvent, SandboxRequest };
export type SandboxType = ResultOf<'process/start'>['sandboxType'];
export type TerminateMode = NonNullable<CallParamsOf<'process/terminate'>['mode']>;

/**
 * An event of a process. Events arrive in order. `output`, `exited` and `closed` carry the server's sequence
 * numbers, which start at 1. `lost` replaces events that can no longer be read; the process keeps running. After
 * `failed` nothing more is known: the process may or may not still run. `closed` or `failed` is the last event.
 * `screen` comes first, and only where it was asked for; its number is that of the last event that it includes.
 */
export type ProcessEvent =
  | {
      readonly type: 'output';
      readonly seq: number;
      readonly stream: OutputStream;
      readonly bytes: Uint8Array;
    }
  | {
      readonly type: 'exited';
      readonly seq: number;
      readonly exitCode: number;
      readonly sandboxDenied: boolean;
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
  readonly exitCode: number | null;
  readonly closed: boolean;
  readonly sandboxDenied: boolean;
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
  }[];
  readonly nextSeq: number;
  readonly exited: boolean;
  readonly exitCode: number | null;
  /** The process has ended and no output follows this page. */
  readonly closed: boolean;
  readonly failure: string | null;
  readonly sandboxDenied: boolean;
}

export interface WaitOptions extends CallOptions {
  /** Default `closed`: the process has exited, and all its output has arrived. */
  readonly until?: 'exited' | 'closed';
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
  /** What this client may do with the process. The client that starts a process is its driver. */
  readonly role: ProcessAttachment['role'];
  /** The clients that are attached to the process, as far as the server has reported them. At most 64. */
  readonly attachedClients: readonly AttachedClient[];
  /** Null when the server did not report it. */
  readonly sandboxType: SandboxType | null;
  readonly state: ProcessState;
  /** A number that grows with every event. It is at least the highest sequence number seen so far. */
  readonly revision: number;
  /** Calls the listener whenever {@link revision} grows. Returns a function that removes the listener. */
  onChange(listener: () => void): () => void;
  /** Calls the listener when {@link role} or {@link attachedClients} has changed. Returns a function that removes the listener. */
  onAttachmentChange(listener: (attachment: ProcessAttachment) => void): () => void;
  /**
   * Iterates over every retained event from the first one on, then over live ones. Ends after `closed` or `failed`.
   * After an attach with `afterSeq` or `screen`, the first one is where that begins.
   */
  events(options?: { readonly signal?: AbortSignal }): AsyncIterableIterator<ProcessEvent>;
  read(options?: ReadOptions): Promise<ReadPage>;
  write(bytes: Uint8Array | string, options?: CallOptions): Promise<WriteStatus>;
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
  /** Stops following the process, which keeps running. Readers of its events get a `failed` event of the kind `closed`. */
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
  /** Receives the decisions about this process. It must not throw. */
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

export type FileMetadata = ResultOf<'fs/getMetadata'>;
export type DirectoryEntry = ResultOf<'fs/readDirectory'>['entries'][number];
export type WalkOptions = CallParamsOf<'fs/walk'>['options'];
export type WalkResult = ResultOf<'fs/walk'>;
export type SearchResult = ResultOf<'fs/search'>;
export type FileChange = NotificationParamsOf<'fs/changed'>['changes'][number];

/** The SHA-256 of a file in hexadecimal digits, and how many bytes were hashed; or why it could not be read. */
export type HashOutcome =
  | { readonly sha256: string; readonly size: number; readonly error?: undefined }
  | { readonly error: ClientError };

/** Options of file operations. */
export interface FileOptions extends CallOptions {
  /**
   * The sandbox to apply: a {@link SandboxRequest} or a form that only the server knows. Absent or null means none.
   */
  readonly sandbox?: unknown;
}

export interface SymlinkOptions extends FileOptions {
  /** Default true. */
  readonly followSymlinks?: boolean;
}

/** A search that exceeds `timeoutMs` returns the matches found so far. */
export type SearchOptions = Pick<CallOptions, 'signal'> & Omit<CallParamsOf<'fs/search'>, 'path' | 'pattern'>;
export type WatchOptions = CallOptions & Omit<CallParamsOf<'fs/watch'>, 'watchId' | 'path'>;

/**
 * Changes in the order in which they happened. `overflow` means that some changes are missing: read the tree again.
 */
export interface FileChanges {
  readonly changes: readonly FileChange[];
  readonly overflow: boolean;
}

/**
 * Watches a path for one consumer. Changes that the consumer does not take in time become an overflow. The
 * iteration ends with `close`, or throws when the path can no longer be watched. Leaving the loop closes the watch.
 */
export interface FileWatch extends AsyncIterable<FileChanges> {
  close(): Promise<void>;
  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * The files of a local or remote executor. Paths are `file:` URIs on the executor. Errors are {@link ClientError}s
 * of the kinds `notFound`, `invalidInput`, `brokenPipe` (the connection is gone; the operation may have happened)
 * and `server`.
 */
export interface ExecutorFileSystem {
  canonicalize(path: string, options?: FileOptions): Promise<string>;
  readFile(path: string, options?: SymlinkOptions): Promise<Uint8Array>;
  /** Reads a UTF-8 file. Other encodings fail with the kind `invalidData`. */
  readFileText(path: string, options?: SymlinkOptions): Promise<string>;
  /**
   * Reads a file in blocks of at most 1 MiB. Leaving the loop early closes the file. `timeoutMs` applies to each
   * block.
   */
  readFileStream(path: string, options?: FileOptions): AsyncIterable<Uint8Array>;
  writeFile(path: string, bytes: Uint8Array | string, options?: SymlinkOptions): Promise<void>;
  createDirectory(path: string, options?: SymlinkOptions & { readonly recursive?: boolean }): Promise<void>;
  getMetadata(path: string, options?: SymlinkOptions): Promise<FileMetadata>;
  readDirectory(path: string, options?: FileOptions): Promise<readonly DirectoryEntry[]>;
  walk(path: string, walk: WalkOptions, options?: FileOptions): Promise<WalkResult>;
  remove(
    path: string,
    options?: SymlinkOptions & { readonly recursive?: boolean; readonly force?: boolean },
  ): Promise<void>;
  copy(
    source: string,
    destination: string,
    options: FileOptions & { readonly recursive: boolean },
  ): Promise<void>;
  /**
   * Renames within one file system and replaces an existing file. Fails with the kind `unsupported` on executors
   * that lack it.
   */
  rename(source: string, destination: string, options?: FileOptions): Promise<void>;
  /**
   * Hashes regular files, at most 1,000. Returns one outcome per path, in the order of `paths`. The executor itself stops after
   * `timeoutMs`, by default after ten minutes. Fails with the kind `unsupported` on executors that lack it.
   */
  hash(paths: readonly string[], options?: SymlinkOptions): Promise<readonly HashOutcome[]>;
  /** Finds lines in files. Fails with the kind `unsupported` on executors that lack it. */
  search(path: string, pattern: string, options?: SearchOptions): Promise<SearchResult>;
  /** Watches for changes from now on. Fails with the kind `unsupported` on executors that lack it. */
  watch(path: string, options?: WatchOptions): Promise<FileWatch>;
  /**
   * Writes a file of any size. By default the replacement is atomic: readers see the old file or the new one, and a
   * failure keeps the old one. With `atomic: false` the file is truncated first and then grows. `timeoutMs` applies
   * to each block. Fails with the kind `unsupported` on executors that lack the requested mode.
   */
  replaceFile(
    path: string,
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options?: FileOptions & { readonly atomic?: boolean },
  ): Promise<void>;
}
