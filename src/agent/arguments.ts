import { isObject } from '../base/is-object.ts';
import { ExecToolError, messageOf, type ToolName } from './errors.ts';
import { FIRST_SESSION_ID, LAST_SESSION_ID } from './limits.ts';

/** The sandbox permissions that a command requests. The policy decides what they mean. */
export type SandboxPermissions = 'use_default' | 'with_additional_permissions' | 'require_escalated';

/** Arguments of `exec_command`, with the model's names. */
export interface ExecCommandArguments {
  readonly cmd: string;
  /** The working directory, relative to the environment's folder. Empty: the folder itself. */
  readonly workdir?: string;
  readonly tty?: boolean;
  readonly yield_time_ms?: number;
  readonly max_output_tokens?: number;
  readonly shell?: string;
  readonly login?: boolean;
  readonly environment_id?: string;
  readonly sandbox_permissions?: SandboxPermissions;
  readonly additional_permissions?: Readonly<Record<string, unknown>>;
  readonly justification?: string;
  readonly prefix_rule?: readonly string[];
}

/** Arguments of `write_stdin`, with the model's names. */
export interface WriteStdinArguments {
  readonly session_id: number;
  /** An empty text only polls the output. */
  readonly chars?: string;
  readonly yield_time_ms?: number;
  readonly max_output_tokens?: number;
}

/** Parses the arguments of `exec_command`: an object, or its JSON text from a model. */
export function parseExecCommand(args: unknown): ExecCommandArguments {
  return parse('exec_command', EXEC_COMMAND, ['cmd'], args) as unknown as ExecCommandArguments;
}

/** Parses the arguments of `write_stdin`: an object, or its JSON text from a model. */
export function parseWriteStdin(args: unknown): WriteStdinArguments {
  return parse('write_stdin', WRITE_STDIN, ['session_id'], args) as unknown as WriteStdinArguments;
}

/** Returns what was expected for an invalid value; null for a valid one. */
type Check = (value: unknown) => string | null;

const text: Check = (value) => (typeof value === 'string' ? null : 'a string');
const truth: Check = (value) => (typeof value === 'boolean' ? null : 'true or false');
const amount: Check = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? null : 'a whole number that is not negative';
const sessionId: Check = (value) =>
  Number.isSafeInteger(value)
    ? null
    : `a whole number, such as ${FIRST_SESSION_ID} to ${LAST_SESSION_ID}, as exec_command has given it`;
const permissions: Check = (value) =>
  value === 'use_default' || value === 'with_additional_permissions' || value === 'require_escalated'
    ? null
    : 'use_default, with_additional_permissions or require_escalated';
const object: Check = (value) => (isObject(value) ? null : 'an object');
const texts: Check = (value) =>
  Array.isArray(value) && value.every((entry) => typeof entry === 'string') ? null : 'an array of strings';

const EXEC_COMMAND: Readonly<Record<string, Check>> = {
  cmd: text,
  workdir: text,
  tty: truth,
  yield_time_ms: amount,
  max_output_tokens: amount,
  shell: text,
  login: truth,
  environment_id: text,
  sandbox_permissions: permissions,
  additional_permissions: object,
  justification: text,
  prefix_rule: texts,
};

const WRITE_STDIN: Readonly<Record<string, Check>> = {
  session_id: sessionId,
  chars: text,
  yield_time_ms: amount,
  max_output_tokens: amount,
};

/** Returns the known arguments. Null equals absent. An unknown name is an error, because it would have no effect. */
function parse(
  tool: ToolName,
  checks: Readonly<Record<string, Check>>,
  required: readonly string[],
  args: unknown,
): Record<string, unknown> {
  const refuse = (message: string) => new ExecToolError(tool, 'invalidArguments', message);
  const value = typeof args === 'string' ? parseJson(args, refuse) : args;
  if (!isObject(value)) throw refuse('the arguments must be an object');
  const found = Object.entries(value).filter(([, member]) => member !== null && member !== undefined);
  for (const [name, member] of found) {
    if (!Object.hasOwn(checks, name)) {
      throw refuse(`unknown argument '${name}'; the arguments are ${Object.keys(checks).join(', ')}`);
    }
    const expected = checks[name]!(member);
    if (expected !== null) throw refuse(`'${name}' must be ${expected}, not ${describe(member)}`);
  }
  const parsed = Object.fromEntries(found);
  const missing = required.find((name) => !Object.hasOwn(parsed, name));
  if (missing !== undefined) throw refuse(`'${missing}' is missing`);
  return parsed;
}

function parseJson(json: string, refuse: (message: string) => ExecToolError): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw refuse(`the arguments are not JSON: ${messageOf(error)}`);
  }
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  return typeof value === 'number' ? String(value) : `a ${typeof value}`;
}
