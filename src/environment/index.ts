export type * from '../client/backend.ts';
export { webSocketTransport } from '../client/connection/open-websocket.ts';
export type { TransportSource } from '../client/connection/session-options.ts';
export { ClientError, type ClientErrorDetails, type ClientErrorKind } from '../client/errors.ts';
export type { Files } from '../client/files/files.ts';
export type { NodeFiles } from '../client/files/node-files.ts';
export {
  TransferError,
  type TransferOptions,
  type TransferProgress,
  type TransferResult,
  type UnfinishedPart,
} from '../client/files/transfer-result.ts';
export type * from '../client/sharing.ts';
export type { ServerSettings } from '../server/config/config.ts';
export { ConfigError } from '../server/config/resolve.ts';
export { attachmentRoots } from './capability-roots/attachment-roots.ts';
export type { AttachmentRoots } from './capability-roots/combined-roots.ts';
export {
  DiscoveryCache,
  type DiscoveryPolicy,
  type StepDiscovery,
} from './capability-roots/discovery-cache.ts';
export type {
  DiscoverableEnvironment,
  DiscoveryFailure,
  RootOutcome,
} from './capability-roots/discovery-request.ts';
export {
  type InspectedRoots,
  inspectRoots,
  type RootInspection,
} from './capability-roots/inspection.ts';
export {
  type RootChoice,
  type SelectedCapabilityRoot,
  selectRoot,
} from './capability-roots/selected-root.ts';
export {
  type ResolvedRoot,
  resolveStepRoots,
  type StartableEnvironment,
  type StepRoots,
} from './capability-roots/step-resolution.ts';
export {
  projectSkills,
  type SkillSources,
  type StepSkill,
  type StepSkills,
} from './capability-roots/step-skills.ts';
export {
  type ForkOptions,
  forkThread,
  restoreSelection,
  type SelectionMetadata,
  type StoredThread,
  selectionMetadata,
} from './capability-roots/thread-record.ts';
export type { RelaySettings } from './config/relay-transport.ts';
export {
  configuredEnvironments,
  type DiscoveredEnvironments,
  discoverEnvironments,
  type SourceOptions,
} from './config/sources.ts';
export type {
  ConnectionState,
  Environment,
  EnvironmentStatus,
  InfoOptions,
  Readiness,
} from './environment.ts';
export { type ExecutorFetch, fetchOver } from './fetch.ts';
export { LocalEnvironment } from './local-environment.ts';
export { EnvironmentManager, type ManagerOptions, type NamedStatus } from './manager.ts';
export {
  McpRuntime,
  type McpRuntimeOptions,
  type StepMcpServer,
  type StepMcpServers,
} from './mcp/mcp-runtime.ts';
export {
  type EnvironmentFinder,
  type McpProgramServer,
  type McpServer,
  type McpWebServer,
  openMcpTransport,
} from './mcp/open-transport.ts';
export type { McpConnect, McpServerName, McpServerState } from './mcp/supervised-server.ts';
export type { McpTransport } from './mcp/transport.ts';
export {
  type CommandTarget,
  type EnvironmentProvider,
  type EnvironmentTransport,
  LOCAL_ENVIRONMENT_ID,
  type OpenerTarget,
  type ProvidedEnvironment,
  type ProvidedEnvironments,
  type WebSocketTarget,
} from './provider.ts';
export type { ProvisioningReport } from './provisioning.ts';
export type { AcceptedSocket } from './remote/accepted-sockets.ts';
export type { Connection, Connector } from './remote/connection.ts';
export type { ClientSettings } from './remote/create-connector.ts';
export { RemoteEnvironment, type RemoteEnvironmentOptions } from './remote/remote-environment.ts';
export type { DamagedRecord, ThreadRecord } from './threads/thread-file.ts';
export type { ThreadLog } from './threads/thread-log.ts';
export { type NewThread, type ThreadForkOptions, ThreadStore } from './threads/thread-store.ts';
export type { AttachmentState, EnvironmentSelection, SelectionConfig, Shell } from './turns/attachment.ts';
export type {
  ReadyEnvironment,
  StartingEnvironment,
  StepEnvironment,
  StepSnapshot,
  VisibleState,
} from './turns/step-snapshot.ts';
export {
  type ConnectionEvent,
  type EnvironmentRegistry,
  ThreadEnvironments,
  type TurnOptions,
} from './turns/thread-environments.ts';
