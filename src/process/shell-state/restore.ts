import { childEnvironment, childEnvironmentAfterLogin } from '../env-policy.ts';
import type { SpawnSpec } from '../spawn/spawner.ts';
import { MAX_STATE_IN_VARIABLES_BYTES, MAX_VARIABLE_BYTES, STATE_VARIABLE_BYTES } from './limits.ts';
import type { LoginCommand, ShellKind } from './login-command.ts';
import type { LoginState } from './login-state.ts';

/** How the state reaches the shell. An open file leaves fewer traces, but not every spawner can pass one. */
type StatePassing = 'descriptor' | 'variables';

/**
 * What is started instead of a login command, so that it runs in the captured state: a shell that reads none of the user's files.
 * Null when the state cannot be passed, or when the script with the restore line is too long.
 */
export function restoredSpec(
  spec: SpawnSpec,
  command: LoginCommand,
  state: LoginState,
  passing: StatePassing,
): SpawnSpec | null {
  const { kind } = command;
  const passed = passing === 'descriptor' ? inDescriptor(kind, state.script) : inVariables(state.script);
  if (passed === null) return null;
  const [arg0, , asked, ...rest] = spec.argv as readonly [string, string, string, ...string[]];
  const script = `${passed.restore}\n${RUN[kind](asked)}`;
  if (Buffer.byteLength(script) > MAX_VARIABLE_BYTES) return null;
  return {
    ...spec,
    argv: [arg0, PLAIN_SHELL[kind], script, ...rest],
    env: { ...environmentOf(spec, command, state), ...passed.variables },
    ...(passed.inherited && { inherited: passed.inherited }),
  };
}

/** Starts each shell without the user's files. Without `-p` bash reads BASH_ENV and imports functions from variables. */
const PLAIN_SHELL: Readonly<Record<ShellKind, string>> = { bash: '-pc', zsh: '-fc', sh: '-c' };

/** bash and sh parse their script command by command. zsh parses all of it before aliases exist, unless it is passed to `eval`. */
const RUN: Readonly<Record<ShellKind, (script: string) => string>> = {
  bash: (script) => script,
  sh: (script) => script,
  zsh: (script) => `builtin eval -- '${script.replaceAll("'", "'\\''")}'`,
};

/** The exported variables as the policy allows, overridden by the request and by what was added to the request later. */
function environmentOf(
  spec: SpawnSpec,
  { program }: LoginCommand,
  state: LoginState,
): Record<string, string> {
  const request = { env: program.env, policy: program.envPolicy, metadata: program.metadata };
  const env = childEnvironmentAfterLogin(request, state.exported);
  const plain = childEnvironment(request, process.env);
  for (const [name, value] of Object.entries(spec.env)) {
    if (name === 'SHLVL' || value !== plain[name]) env[name] = value;
  }
  return env;
}

interface PassedState {
  /** The line that restores the state and removes what it was passed with. */
  readonly restore: string;
  readonly variables?: Readonly<Record<string, string>>;
  readonly inherited?: readonly [Uint8Array];
}

/** Uses the first descriptor after the standard ones. The script closes it after the shell has read it. */
function inDescriptor(kind: ShellKind, script: Buffer): PassedState {
  const inherited = [Buffer.concat([Buffer.from('exec 3<&-\n'), script])] as const;
  // Without `command` an error would end a POSIX shell; with it zsh would look for a program of that name.
  const read = kind === 'sh' ? 'command .' : '.';
  return { restore: `${read} /dev/fd/3 2>/dev/null`, inherited };
}

/** Null when the script is too long for variables or is not text. */
function inVariables(script: Buffer): PassedState | null {
  const text = script.toString();
  if (script.length > MAX_STATE_IN_VARIABLES_BYTES || !Buffer.from(text).equals(script)) return null;
  const pieces = piecesOf(text);
  const names = pieces.map((_, index) => `EXEC_SERVER_SHELL_STATE_${index}`);
  const restore = `eval "unset ${names.join(' ')}\n${names.map((name) => `\${${name}}`).join('')}" 2>/dev/null`;
  return { restore, variables: Object.fromEntries(names.map((name, index) => [name, pieces[index]!])) };
}

/** Splits so that no piece has more bytes than a variable may have. */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(text.length, start + STATE_VARIABLE_BYTES / 3);
    // A surrogate pair is one character in UTF-8.
    if (/[\ud800-\udbff]/.test(text[end - 1]!) && end < text.length) end--;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}
