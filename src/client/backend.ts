import type { NetworkPolicyDecision, NetworkPolicyDecisionEvent } from '../protocol/network.ts';
import type { CallParamsOf, NotificationParamsOf, ResultOf } from '../protocol/registry.ts';
import type { SandboxRequest } from '../protocol/sandbox.ts';
import type { ClientError } from './errors.ts';

/** How a call may be cut short. Whichever comes first ends it with a typed error; what it asked for may happen all the same. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** The flat form of `process/start`, the processId included. */
export type StartParams = Exclude<CallParamsOf<'process/start'>, { direct: unknown } | { prepared: unknown }>;

export type OutputStream = 'stdout' | 'stderr' | 'pty';
export type WriteStatus = ResultOf<'process/write'>['status'];
export type { NetworkPolicyDecision, NetworkPolicyDecisionEvent, SandboxRequest };
export type SandboxType = ResultOf<'process/start'>['sandboxType'];
export type TerminateMode = NonNullable<CallParamsOf<'process/terminate'>['mode']>;

/**
 * What happens to a process, in order. `output`, `exited` and `closed` carry the server's sequence numbers, from 1. `lost` stands in
 * the place of events that can never be had again; the process goes on. `failed` is the end of what can be known: the process may
 * or may not run on. `closed` or `failed` is the last event.
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
  | { readonly type: 'failed'; readonly error: ClientError };

/** Events from `fromSeq` to `toSeq`, both included, are gone. `bytes` is how much output that was, when the server can tell. */
export interface LostEvent {
  readonly type: 'lost';
  readonly fromSeq: number;
  readonly toSeq: number;
  readonly bytes: number | null;
}

/** What is known of a process now. */
export interface ProcessState {
  readonly exited: boolean;
  readonly exitCode: number | null;
  readonly closed: boolean;
  readonly sandboxDenied: boolean;
  readonly failure: ClientError | null;
}

export interface ReadOptions extends CallOptions {
  /** Only what comes behind this sequence number; 0 or absent is everything retained. */
  readonly afterSeq?: number;
  readonly maxBytes?: number;
  /** How long to wait for something new. It is waited for on this side: no request stays open meanwhile. */
  readonly waitMs?: number;
}

export interface ReadPage {
  readonly chunks: readonly {
    readonly seq: number;
    readonly stream: OutputStream;
    readonly bytes: Uint8Array;
  }[];
  readonly nextSeq: number;
  readonly exited: boolean;
  readonly exitCode: number | null;
  readonly closed: boolean;
  readonly failure: string | null;
  readonly sandboxDenied: boolean;
}

/** A started process, wherever it runs. Letting go of it does not end it. */
export interface ExecProcess {
  readonly processId: string;
  /** Null when the server did not say. */
  readonly sandboxType: SandboxType | null;
  readonly state: ProcessState;
  /** At least every sequence number seen so far; grows with news and never tells of the same twice. */
  readonly revision: number;
  /** Called whenever {@link revision} has grown. Returns what ends it. */
  onChange(listener: () => void): () => void;
  /** Every event from the first on, as far as it is retained, then live ones; ends behind `closed` or `failed`. */
  events(options?: { readonly signal?: AbortSignal }): AsyncIterableIterator<ProcessEvent>;
  read(options?: ReadOptions): Promise<ReadPage>;
  write(bytes: Uint8Array | string, options?: CallOptions): Promise<WriteStatus>;
  /** Ends stdin behind what was written; false when it was at its end already. */
  closeStdin(options?: CallOptions): Promise<boolean>;
  signal(name: string, options?: CallOptions): Promise<void>;
  resize(rows: number, cols: number, options?: CallOptions): Promise<void>;
  /** Ends the process and everything it started; whether it was running. */
  terminate(mode?: TerminateMode, options?: CallOptions): Promise<boolean>;
}

/** What an executor tells of itself. */
export type EnvironmentInfo = ResultOf<'environment/info'>;

/** A directory that is asked about; `path` is a `file:` URI of the executor. */
export type DiscoveryRoot = CallParamsOf<'capabilityRoots/discoverV1'>['roots'][number];
/** What a directory offers to an agent. */
export type DiscoveredRoot = ResultOf<'capabilityRoots/discoverV1'>['roots'][number];

/** Finds what directories of an executor offer. */
export interface CapabilityDiscovery {
  /** One result for each root, in their order. A root that cannot be used says so in its `error`. */
  discover(roots: readonly DiscoveryRoot[], options?: CallOptions): Promise<readonly DiscoveredRoot[]>;
}

/** Starts processes, here or elsewhere. */
export interface ExecBackend {
  /** Where programs start when nobody says where, a `file:` URI; null when the executor does not tell. Connects for it if need be. */
  defaultCwd?(options?: CallOptions): Promise<string | null>;
  start(params: StartParams, options?: CallOptions): Promise<ExecProcess>;
}

/** A header to send. With `valueEnvVar` the executor puts the value of that variable of its own behind `value`. */
export type HttpRequestHeader = NonNullable<CallParamsOf<'http/request'>['headers']>[number];
/** A header that was received; the name is in lower case. */
export type HttpHeader = ResultOf<'http/request'>['headers'][number];

/** A request that an executor sends to a web server. */
export interface HttpRequest {
  readonly url: string;
  /** Default `GET`. Sent as it is. */
  readonly method?: string;
  readonly headers?: readonly HttpRequestHeader[];
  readonly body?: Uint8Array | string | null;
  /** Default `follow`, through up to ten redirects; `stop` returns the first. */
  readonly redirect?: 'follow' | 'stop';
}

/** What a web server answered. Nothing is decompressed. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: readonly HttpHeader[];
  readonly body: Uint8Array;
}

/**
 * An answer whose body is still coming, for one reader. Leaving the loop, or `cancel`, ends the request. The iteration throws when
 * the body does not come to its end, as it never does when the connection is lost.
 */
export interface StreamingHttpResponse {
  readonly status: number;
  readonly headers: readonly HttpHeader[];
  readonly body: AsyncIterable<Uint8Array>;
  cancel(): void;
}

/** Asks web servers from where an executor is. `signal` and `timeoutMs` hold until the body has ended; a request is sent once. */
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

/** Options of file operations. */
export interface FileOptions extends CallOptions {
  /** The sandbox to apply, a {@link SandboxRequest} or a form that only the server knows; absent or null is none. */
  readonly sandbox?: unknown;
}

export interface LinkOptions extends FileOptions {
  /** Default true. */
  readonly followSymlinks?: boolean;
}

/** With `timeoutMs` a search that takes longer gives what it has found. */
export type SearchOptions = Pick<CallOptions, 'signal'> & Omit<CallParamsOf<'fs/search'>, 'path' | 'pattern'>;
export type WatchOptions = CallOptions & Omit<CallParamsOf<'fs/watch'>, 'watchId' | 'path'>;

/** Changes in the order in which they happened. With `overflow` there were others besides: look at the tree again. */
export interface FileChanges {
  readonly changes: readonly FileChange[];
  readonly overflow: boolean;
}

/**
 * Changes below a path, for one consumer; what it does not take in time is told as overflow. The iteration ends with `close`, and
 * by throwing when the path can no longer be watched. Leaving the loop closes the watch.
 */
export interface FileWatch extends AsyncIterable<FileChanges> {
  close(): Promise<void>;
}

/**
 * Files of an executor, here or elsewhere. Paths are `file:` URIs of the executor. Failures are {@link ClientError}s of the kinds
 * `notFound`, `invalidInput`, `brokenPipe` (the connection is gone; the operation may have happened) and `server`.
 */
export interface ExecutorFileSystem {
  canonicalize(path: string, options?: FileOptions): Promise<string>;
  readFile(path: string, options?: LinkOptions): Promise<Uint8Array>;
  /** The text of a UTF-8 file; anything else is an error of the kind `invalidData`. */
  readFileText(path: string, options?: LinkOptions): Promise<string>;
  /** Blocks of at most one megabyte; leaving the loop early closes the file. `timeoutMs` is for each block. */
  readFileStream(path: string, options?: FileOptions): AsyncIterable<Uint8Array>;
  writeFile(path: string, bytes: Uint8Array | string, options?: LinkOptions): Promise<void>;
  createDirectory(path: string, options?: LinkOptions & { readonly recursive?: boolean }): Promise<void>;
  getMetadata(path: string, options?: LinkOptions): Promise<FileMetadata>;
  readDirectory(path: string, options?: FileOptions): Promise<readonly DirectoryEntry[]>;
  walk(path: string, walk: WalkOptions, options?: FileOptions): Promise<WalkResult>;
  remove(
    path: string,
    options?: LinkOptions & { readonly recursive?: boolean; readonly force?: boolean },
  ): Promise<void>;
  copy(
    source: string,
    destination: string,
    options: FileOptions & { readonly recursive: boolean },
  ): Promise<void>;
  /** Renames within one file system; an existing file is replaced. Not every executor can: else the kind is `unsupported`. */
  rename(source: string, destination: string, options?: FileOptions): Promise<void>;
  /** Finds lines in files. Not every executor can: else the kind is `unsupported`. */
  search(path: string, pattern: string, options?: SearchOptions): Promise<SearchResult>;
  /** Reports what changes from now on. Not every executor can: else the kind is `unsupported`. */
  watch(path: string, options?: WatchOptions): Promise<FileWatch>;
  /**
   * Writes a file of any size. Atomic by default: whoever looks finds the old file or the new one, and a failure leaves the old
   * one. Otherwise it is emptied first and grows. `timeoutMs` is for each block. Not every executor can do either: else the kind is
   * `unsupported`.
   */
  replaceFile(
    path: string,
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options?: FileOptions & { readonly atomic?: boolean },
  ): Promise<void>;
}

/** The position of the options among the arguments of each operation, for code that forwards all of them. */
export const FILE_OPTIONS_POSITION: {
  readonly [Name in keyof ExecutorFileSystem]: LastPosition<Required<Parameters<ExecutorFileSystem[Name]>>>;
} = {
  canonicalize: 1,
  readFile: 1,
  readFileText: 1,
  readFileStream: 1,
  writeFile: 2,
  createDirectory: 1,
  getMetadata: 1,
  readDirectory: 1,
  walk: 2,
  remove: 1,
  copy: 2,
  rename: 2,
  search: 2,
  watch: 1,
  replaceFile: 2,
};

type LastPosition<Arguments extends readonly unknown[]> = Arguments extends readonly [unknown, ...infer Rest]
  ? Rest['length']
  : never;
