export type {
  CallOptions,
  CapabilityDiscovery,
  DirectoryEntry,
  DiscoveredRoot,
  DiscoveryRoot,
  EnvironmentInfo,
  ExecBackend,
  ExecProcess,
  ExecutorFileSystem,
  FileChange,
  FileChanges,
  FileMetadata,
  FileOptions,
  FileWatch,
  LinkOptions,
  LostEvent,
  OutputStream,
  ProcessEvent,
  ProcessState,
  ReadOptions,
  ReadPage,
  SandboxType,
  SearchOptions,
  SearchResult,
  StartParams,
  TerminateMode,
  WalkOptions,
  WalkResult,
  WatchOptions,
  WriteStatus,
} from './backend.ts';
export { type ConnectOptions, ExecServerClient, type TransportOptions, type UrlOptions } from './client.ts';
export type { ClientState, SessionOptions, TransportSource } from './client-core.ts';
export { ClientError, type ClientErrorDetails, type ClientErrorKind } from './errors.ts';
export {
  type CollectOptions,
  communicate,
  type Outcome,
  type RunOptions,
  run,
  wait,
} from './helpers.ts';
export {
  type OutputBytes,
  type OutputOptions,
  type OutputText,
  outputOf,
  outputTextOf,
} from './output-text.ts';
export { type FileCaller, RemoteFileSystem } from './remote-file-system.ts';
export type { Capabilities } from './wire.ts';
