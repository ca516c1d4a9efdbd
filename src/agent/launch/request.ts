import { toFileUri } from '../../client/paths.ts';
import { type Shell, shellCommand, shellKind } from '../../client/process/shell-command.ts';
import type {
  EnvPolicy,
  ExecBackend,
  SandboxRequest,
  SharedProcesses,
  StartParams,
} from '../../environment/index.ts';
import type { ExecCommandArguments } from '../arguments.ts';
import { ExecToolError, messageOf } from '../errors.ts';
import type { CommandRequest } from './policy.ts';
import { type Caller, programEnvironment, programMetadata } from './program-environment.ts';

/** A target for commands. */
export interface ExecTarget {
  /** The environment's id. */
  readonly id: string;
  readonly backend: ExecBackend;
  /** For `reopen`. */
  readonly processes?: SharedProcesses;
  readonly shell: Shell;
  /** The default working directory, a `file:` URI of the executor. */
  readonly cwd: string;
}

/** Returns the target of a call: the one it names, or the first. */
export function chooseTarget(targets: readonly ExecTarget[], environmentId: string | undefined): ExecTarget {
  const target = environmentId === undefined ? targets[0] : targets.find(({ id }) => id === environmentId);
  if (target !== undefined) return target;
  if (environmentId === undefined) throw invalid('there is no environment to run commands in');
  const ids = targets.map(({ id }) => id).join(', ');
  throw invalid(
    `there is no environment '${environmentId}'; the environments are: ${ids === '' ? 'none' : ids}`,
  );
}

/** Resolves the arguments for the target. */
export function commandRequest(
  args: ExecCommandArguments,
  target: ExecTarget,
  callId: string,
  allowLogin: boolean,
): CommandRequest {
  if (args.shell !== undefined && shellKind(args.shell) !== shellKind(target.shell.name)) {
    throw invalid(`environment '${target.id}' has no shell but ${target.shell.name}; leave 'shell' out`);
  }
  if (args.login === true && !allowLogin) {
    throw invalid("login shells are not allowed here; leave 'login' out or set it to false");
  }
  return {
    callId,
    environmentId: target.id,
    cmd: args.cmd,
    command: shellCommand(target.shell, args.cmd, args.login ?? allowLogin),
    cwd: folderOf(target.cwd, args.workdir ?? ''),
    tty: args.tty ?? false,
    sandboxPermissions: args.sandbox_permissions ?? 'use_default',
    additionalPermissions: args.additional_permissions ?? null,
    justification: args.justification ?? null,
    prefixRule: args.prefix_rule ?? null,
  };
}

/** Variables that override those of the programs. */
export interface EnvironmentChoices {
  readonly envPolicy: EnvPolicy;
  readonly env: Readonly<Record<string, string>>;
}

/** Returns the request to the executor. Only a program on a terminal has input. */
export function startParams(
  request: CommandRequest,
  processId: string,
  sandbox: unknown,
  caller: Caller,
  { envPolicy, env }: EnvironmentChoices,
): StartParams {
  return {
    processId,
    argv: [...request.command],
    cwd: request.cwd,
    env: programEnvironment(env, caller),
    envPolicy,
    tty: request.tty,
    pipeStdin: false,
    metadata: programMetadata(caller),
    ...(sandbox === null || sandbox === undefined ? {} : { sandbox: sandbox as SandboxRequest }),
  };
}

function folderOf(cwd: string, workdir: string): string {
  try {
    return workdir === '' ? cwd : toFileUri(workdir, cwd);
  } catch (error) {
    throw invalid(`'workdir' does not name a folder: ${messageOf(error)}`);
  }
}

function invalid(message: string): ExecToolError {
  return new ExecToolError('exec_command', 'invalidArguments', message);
}
