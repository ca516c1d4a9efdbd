// Exports that the Node and the browser entry share. Each entry adds its way to connect.

export type * from './backend.ts';
export type { ClientState } from './connection/client-status.ts';
export type { TransportOptions } from './connection/connect-options.ts';
export type { PolicyHandler, PolicyRequest } from './connection/policy-requests.ts';
export type { Capabilities, DroppedProcess } from './connection/server-messages.ts';
export type { SessionOptions, TransportSource } from './connection/session-options.ts';
export type { TraceContext, TraceSource } from './connection/trace.ts';
export { activeTrace } from './connection/trace.ts';
export { ClientError, type ClientErrorDetails, type ClientErrorKind } from './errors.ts';
export type * from './files/file-types.ts';
export { Files, type FilesSource } from './files/files.ts';
export type { ListTreeOptions, TreeEntry } from './files/list-tree.ts';
export { type FileSystemClient, RemoteFileSystem } from './files/remote-file-system.ts';
export {
  type SkippedPath,
  TransferError,
  type TransferOptions,
  type TransferProgress,
  type TransferResult,
  type UnfinishedPart,
} from './files/transfer-result.ts';
export type { WalkEntry, WalkTreeOptions } from './files/walk-tree.ts';
export type { PathLike } from './paths.ts';
export type { ProgramInput } from './process/input.ts';
export {
  type OutputBytes,
  type OutputOptions,
  type OutputText,
  outputOf,
  outputTextOf,
} from './process/output.ts';
export type { RunResult } from './process/output-collector.ts';
export type { Command, ProgramOptions } from './process/program-options.ts';
export { type CollectOptions, communicate, type RunOptions, run, wait } from './process/run.ts';
export type { SpawnOptions } from './process/spawn.ts';
export type { RecordingInfo, RecordingListOptions, RecordingReadOptions, Recordings } from './recordings.ts';
export type * from './sharing.ts';
export type { PortListener, PortWatch, WatchedPort } from './tcp/port-watch.ts';
