// Exports that the Node and the browser entry share. Each entry adds its way to connect.

export type * from './backend.ts';
export type { ClientState, SessionOptions, TransportSource } from './client-core.ts';
export type { PolicyHandler, PolicyRequest } from './connection/policy-requests.ts';
export type { Capabilities, DroppedProcess } from './connection/server-messages.ts';
export type { TraceContext, TraceSource } from './connection/trace.ts';
export { activeTrace } from './connection/trace.ts';
export { ClientError, type ClientErrorDetails, type ClientErrorKind } from './errors.ts';
export {
  type FileEntry,
  type FileHash,
  type FileInfo,
  type FileKind,
  type FileSource,
  Files,
  type FilesSource,
  type PathChange,
  type PathChanges,
  type PathHash,
  type PathWatch,
  type RemoveOptions,
  type WriteOptions,
} from './files/files.ts';
export { type FileSystemClient, RemoteFileSystem } from './files/remote-file-system.ts';
export type { WalkEntry, WalkTreeOptions } from './files/walk-tree.ts';
export type { PathLike } from './paths.ts';
export {
  type OutputBytes,
  type OutputOptions,
  type OutputText,
  outputOf,
  outputTextOf,
} from './process/output.ts';
export {
  type CollectOptions,
  communicate,
  type RunOptions,
  type RunResult,
  run,
  wait,
} from './process/run.ts';
export type * from './sharing.ts';
