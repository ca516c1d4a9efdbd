export {
  AgentExec,
  type AgentExecOptions,
  type ExecContext,
  type RunningProgram,
  type WriteContext,
} from './agent-exec.ts';
export type { ExecCommandArguments, SandboxPermissions, WriteStdinArguments } from './arguments.ts';
export type { Clock } from './clock.ts';
export type { Shell } from './command.ts';
export { environmentTarget, type TargetOptions } from './environment-target.ts';
export { type ExecErrorDetails, type ExecErrorKind, ExecToolError, type ToolName } from './errors.ts';
export type {
  BeginEvent,
  EndEvent,
  ExecEvent,
  OutputDeltaEvent,
  TerminalInteractionEvent,
} from './events.ts';
export { HeadTailBuffer } from './head-tail-buffer.ts';
export type { StructuredOutput } from './model-text.ts';
export type { Approval, CommandRequest, Denial, ExecPolicy } from './policy.ts';
export { DEFAULT_ENV_POLICY, type EnvPolicy, FIXED_ENVIRONMENT } from './program-environment.ts';
export type { ExecTarget } from './request.ts';
export type { ToolOutput } from './tool-output.ts';
export {
  type ArgumentSchema,
  EXEC_COMMAND_TOOL,
  execCommandTool,
  type ToolChoices,
  type ToolDefinition,
  WRITE_STDIN_TOOL,
  writeStdinTool,
} from './tools.ts';
export type { TruncationPolicy } from './truncate.ts';
