import type { ToolName } from './errors.ts';
import {
  DEFAULT_MAX_POLL_MS,
  DEFAULT_OUTPUT_TOKENS,
  DEFAULT_WRITE_YIELD_MS,
  DEFAULT_YIELD_MS,
  MAX_YIELD_MS,
  MIN_POLL_MS,
  MIN_YIELD_MS,
} from './limits.ts';

/** A JSON Schema of an argument. */
export interface ArgumentSchema {
  readonly type: 'string' | 'integer' | 'boolean' | 'object' | 'array';
  readonly description: string;
  readonly enum?: readonly string[];
  readonly items?: { readonly type: 'string' };
  readonly minimum?: number;
}

/** The definition of a tool for a model. */
export interface ToolDefinition {
  readonly name: ToolName;
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly parameters: {
    readonly type: 'object';
    readonly properties: Readonly<Record<string, ArgumentSchema>>;
    readonly required: readonly string[];
    readonly additionalProperties: false;
  };
}

/** Optional arguments of `exec_command` in its definition. */
export interface ToolChoices {
  /** Several environments to choose from; the first is the default. */
  readonly environmentIds?: readonly string[];
  /** Whether the model may choose `login`. Default: true. */
  readonly allowLogin?: boolean;
  /** Whether the model may request permissions, which needs a policy. Default: false. */
  readonly permissions?: boolean;
  /** Longest poll without input. */
  readonly maxPollMs?: number;
}

/** Returns the definition of `exec_command` with the applicable arguments. */
export function execCommandTool(choices: ToolChoices = {}): ToolDefinition {
  const { environmentIds = [], allowLogin = true, permissions = false } = choices;
  return tool('exec_command', EXEC_COMMAND_DESCRIPTION, ['cmd'], {
    ...COMMAND_ARGUMENTS,
    ...(allowLogin ? LOGIN_ARGUMENT : {}),
    ...(environmentIds.length > 1 ? environmentArgument(environmentIds) : {}),
    ...(permissions ? PERMISSION_ARGUMENTS : {}),
  });
}

/** Returns the definition of `write_stdin` with the applicable limits. */
export function writeStdinTool(choices: Pick<ToolChoices, 'maxPollMs'> = {}): ToolDefinition {
  const { maxPollMs = DEFAULT_MAX_POLL_MS } = choices;
  return tool('write_stdin', WRITE_STDIN_DESCRIPTION, ['session_id'], {
    session_id: {
      type: 'integer',
      description: 'The session ID that exec_command has given.',
    },
    chars: {
      type: 'string',
      description:
        'What to type, "\\n" for the return key and "\\u0003" for Ctrl-C. Leave it empty to wait for output. Without a terminal only Ctrl-C can be sent.',
    },
    yield_time_ms: {
      type: 'integer',
      minimum: 0,
      description: `Milliseconds to wait for output: with input ${MIN_YIELD_MS} to ${MAX_YIELD_MS}, ${DEFAULT_WRITE_YIELD_MS} by default; without input ${MIN_POLL_MS} to ${maxPollMs}. Returns earlier when the command ends.`,
    },
    max_output_tokens: MAX_OUTPUT_TOKENS,
  });
}

const EXEC_COMMAND_DESCRIPTION =
  'Runs a shell command. Returns its output and exit code, or, when it takes longer than yield_time_ms, the output so far and a session ID with which write_stdin goes on.';

const WRITE_STDIN_DESCRIPTION =
  'Types into a command that still runs, or just waits for it, and returns the output since the last look.';

const MAX_OUTPUT_TOKENS: ArgumentSchema = {
  type: 'integer',
  minimum: 0,
  description: `Tokens of output to return, ${DEFAULT_OUTPUT_TOKENS} by default; more is shortened in the middle.`,
};

const COMMAND_ARGUMENTS: Readonly<Record<string, ArgumentSchema>> = {
  cmd: { type: 'string', description: 'The command, as typed into a shell.' },
  workdir: {
    type: 'string',
    description: 'Folder to run it in, absolute or relative to the working folder, which is the default.',
  },
  tty: {
    type: 'boolean',
    description:
      'Whether to run it on a terminal, which it needs to read what is typed. Default false: it finds its input at the end.',
  },
  yield_time_ms: {
    type: 'integer',
    minimum: 0,
    description: `Milliseconds to wait for the end, ${MIN_YIELD_MS} to ${MAX_YIELD_MS}; ${DEFAULT_YIELD_MS} by default. The command runs on afterwards.`,
  },
  max_output_tokens: MAX_OUTPUT_TOKENS,
  shell: { type: 'string', description: "The shell to use; only the environment's own is possible." },
};

const LOGIN_ARGUMENT: Readonly<Record<string, ArgumentSchema>> = {
  login: {
    type: 'boolean',
    description: 'Whether the shell reads the profile of the user first. Default true.',
  },
};

const PERMISSION_ARGUMENTS: Readonly<Record<string, ArgumentSchema>> = {
  sandbox_permissions: {
    type: 'string',
    enum: ['use_default', 'with_additional_permissions', 'require_escalated'],
    description:
      'What the command may do: as usual, what additional_permissions adds, or everything. Default use_default.',
  },
  additional_permissions: {
    type: 'object',
    description: 'What the command needs beyond the usual; with with_additional_permissions only.',
  },
  justification: {
    type: 'string',
    description: 'Why more than the usual is needed: one question that the user can answer with yes or no.',
  },
  prefix_rule: {
    type: 'array',
    items: { type: 'string' },
    description: 'First words of commands that the user may allow once and for all, with require_escalated.',
  },
};

/** The definitions for one environment without a policy. */
export const EXEC_COMMAND_TOOL: ToolDefinition = execCommandTool();
export const WRITE_STDIN_TOOL: ToolDefinition = writeStdinTool();

function environmentArgument(ids: readonly string[]): Readonly<Record<string, ArgumentSchema>> {
  return {
    environment_id: {
      type: 'string',
      enum: ids,
      description: `The environment to run it in; ${ids[0]} by default.`,
    },
  };
}

function tool(
  name: ToolName,
  description: string,
  required: readonly string[],
  properties: Readonly<Record<string, ArgumentSchema>>,
): ToolDefinition {
  return {
    name,
    description,
    parameters: { type: 'object', properties, required, additionalProperties: false },
  };
}
