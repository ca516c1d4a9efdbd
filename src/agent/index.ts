export type { Shell } from '../client/process/shell-command.ts';
export type { EnvPolicy } from '../environment/index.ts';
export { AgentExec } from './agent-exec.ts';
export type { ExecCommandArguments, SandboxPermissions, WriteStdinArguments } from './arguments.ts';
export type { Clock } from './clock.ts';
export { type ExecErrorDetails, type ExecErrorKind, ExecToolError, type ToolName } from './errors.ts';
export type {
  BeginEvent,
  EndEvent,
  ExecEvent,
  NetworkDecisionEvent,
  OutputDeltaEvent,
  TerminalInteractionEvent,
} from './events.ts';
export { environmentTarget, type TargetOptions } from './launch/environment-target.ts';
export type {
  Approval,
  CommandRequest,
  Denial,
  ExecPolicy,
  HostRequest,
  NetworkChoice,
} from './launch/policy.ts';
export { DEFAULT_ENV_POLICY, FIXED_ENVIRONMENT } from './launch/program-environment.ts';
export type { ExecTarget } from './launch/request.ts';
export type * from './options.ts';
export type { StructuredOutput } from './output/model-text.ts';
export type { ToolOutput } from './output/tool-output.ts';
export type { TruncationPolicy } from './output/truncate.ts';
export type { NetworkDenial } from './session/network-decisions.ts';
export { StdioProgram, StdioProgramError, type StdioProgramOptions } from './stdio-program.ts';
export {
  type ArgumentSchema,
  EXEC_COMMAND_TOOL,
  execCommandTool,
  type ToolChoices,
  type ToolDefinition,
  WRITE_STDIN_TOOL,
  writeStdinTool,
} from './tools.ts';
