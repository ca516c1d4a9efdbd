import { childEnvironment, childEnvironmentAfterLogin } from '../env-policy.ts';
import type { SpawnSpec } from '../spawn/spawner.ts';
import { MAX_STATE_IN_VARIABLES_BYTES, MAX_VARIABLE_BYTES, STATE_VARIABLE_BYTES } from './limits.ts';
import type { LoginCommand, ShellKind } from './login-command.ts';
import type { LoginState } from './login-state.ts';

/** How the state gets to the shell: an open file leaves less of a trace, but not everything that starts programs can pass one. */
type StatePassing = 'descriptor' | 'variables';

/**
 * What is started in place of a login command, so that it runs in the captured state: a shell that reads none of the user's files.
 * Null when there is no way to pass the state, or no room for it in front of a script that just fits.
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

/** How each shell is started without its user's files. bash would otherwise read BASH_ENV and take functions from variables. */
const PLAIN_SHELL: Readonly<Record<ShellKind, string>> = { bash: '-pc', zsh: '-fc', sh: '-c' };

/** The others read their script command by command; zsh reads it whole, before there are aliases, unless it is told not to. */
const RUN: Readonly<Record<ShellKind, (script: string) => string>> = {
  bash: (script) => script,
  sh: (script) => script,
  zsh: (script) => `builtin eval -- '${script.replaceAll("'", "'\\''")}'`,
};

/** What was exported, as the policy allows; over it what the request says, and what was laid over the request since. */
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
  /** The line that restores the state and leaves no trace of how it came. */
  readonly restore: string;
  readonly variables?: Readonly<Record<string, string>>;
  readonly inherited?: readonly [Uint8Array];
}

/** The first descriptor behind the standard ones. The script closes it, having been read by then. */
function inDescriptor(kind: ShellKind, script: Buffer): PassedState {
  const inherited = [Buffer.concat([Buffer.from('exec 3<&-\n'), script])] as const;
  // Spelled otherwise it would end a POSIX shell, should it fail; but zsh would look for a program of that name.
  const read = kind === 'sh' ? 'command .' : '.';
  return { restore: `${read} /dev/fd/3 2>/dev/null`, inherited };
}

/** Null when the script is too long for variables, or is no text. */
function inVariables(script: Buffer): PassedState | null {
  const text = script.toString();
  if (script.length > MAX_STATE_IN_VARIABLES_BYTES || !Buffer.from(text).equals(script)) return null;
  const pieces = piecesOf(text);
  const names = pieces.map((_, index) => `EXEC_SERVER_SHELL_STATE_${index}`);
  const restore = `eval "unset ${names.join(' ')}\n${names.map((name) => `\${${name}}`).join('')}" 2>/dev/null`;
  return { restore, variables: Object.fromEntries(names.map((name, index) => [name, pieces[index]!])) };
}

/** Pieces of so many characters that none takes more bytes than a variable may have. */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(text.length, start + STATE_VARIABLE_BYTES / 3);
    // A pair of surrogates is one character of UTF-8.
    if (/[\ud800-\udbff]/.test(text[end - 1]!) && end < text.length) end--;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}
