import { isUtf8 } from 'node:buffer';
import { STATE_PARTS } from './capture-script.ts';
import { MAX_EXPORTED_BYTES, MAX_STATE_BYTES, MAX_VARIABLE_BYTES } from './limits.ts';
import type { ShellKind } from './login-command.ts';

/** What a login shell is like once it has read the user's files. */
export interface LoginState {
  /** A script that gives a new shell of the same kind the functions, options and aliases. It prints nothing. */
  readonly script: Buffer;
  /** The variables that are exported, but those that belong to one run: PWD, OLDPWD, SHLVL and `_`. */
  readonly exported: Readonly<Record<string, string>>;
  readonly bytes: number;
}

/** The state that a shell has shown by {@link captureScript}; null when it cannot be used. */
export function loginStateOf(kind: ShellKind, content: Buffer): LoginState | null {
  const parts = splitParts(kind, content);
  if (parts === null) return null;
  const script = Buffer.concat(SCRIPT_MAKERS[kind](parts).map((line) => Buffer.from(line, 'latin1')));
  const exported = parts.variables.length > MAX_EXPORTED_BYTES ? null : exportedVariables(parts.variables);
  if (exported === null || script.length > MAX_STATE_BYTES) return null;
  return { script, exported, bytes: script.length + parts.variables.length };
}

/** Texts are bytes, one per character: a function may hold any. */
interface Parts {
  readonly named: Readonly<Record<string, string>>;
  readonly variables: Buffer;
}

function splitParts(kind: ShellKind, content: Buffer): Parts | null {
  const named: Record<string, string> = {};
  let rest = content;
  for (const name of STATE_PARTS[kind]) {
    const end = rest.indexOf(0);
    if (end === -1) return null;
    named[name] = rest.toString('latin1', 0, end);
    rest = rest.subarray(end + 1);
  }
  return { named, variables: rest };
}

/** Null when one is larger than the system takes. Variables that are no UTF-8 are left out: a child's are given as text. */
function exportedVariables(bytes: Buffer): Record<string, string> | null {
  const exported: [string, string][] = [];
  for (let start = 0; start < bytes.length; ) {
    const found = bytes.indexOf(0, start);
    const end = found === -1 ? bytes.length : found;
    const entry = bytes.subarray(start, end);
    if (entry.length > MAX_VARIABLE_BYTES) return null;
    const separator = entry.indexOf('=');
    const name = entry.toString('utf8', 0, Math.max(0, separator));
    if (separator > 0 && isUtf8(entry) && !OF_ONE_RUN.has(name) && !name.startsWith('BASH_FUNC_')) {
      exported.push([name, entry.toString('utf8', separator + 1)]);
    }
    start = end + 1;
  }
  return Object.fromEntries(exported);
}

const OF_ONE_RUN = new Set(['PWD', 'OLDPWD', 'SHLVL', '_']);

/**
 * What makes each shell what it was. Aliases come before the functions, which may have the names of commands that are needed here,
 * and are not expanded until all is read: they would change the functions. Options come last in one command: those that stop or
 * trace a shell must not see the rest; but what a shell needs to read the functions comes first.
 */
const SCRIPT_MAKERS: Readonly<Record<ShellKind, (parts: Parts) => string[]>> = {
  bash: ({ named }) => [
    'shopt -u expand_aliases\nunalias -a\n',
    `${named.aliases}\n`,
    ...linesMatching(
      named.shellOptions,
      /^shopt -[su] (?!login_shell$|restricted_shell$|expand_aliases$)\w+$/,
    ),
    `${named.functions}\n`,
    ...builtins(linesMatching(named.exportedFunctions, /^declare -f\w* .+$/)),
    ...builtins(linesMatching(named.shellOptions, /^shopt -s expand_aliases$/)),
    ...builtins(setOptions(named.options, () => true)),
  ],
  zsh: ({ named }) => {
    const options = linesMatching(named.options, /^[a-z]+$/).map((line) => line.trim());
    const lasting = options.filter((option) => !ZSH_OF_ONE_RUN.has(option));
    const late = lasting.filter((option) => ZSH_LATE.has(option));
    const early = lasting.filter((option) => !ZSH_LATE.has(option));
    return [
      'unalias -m "*"\nsetopt rcs noaliases\n',
      `${named.aliases}\n`,
      ...(early.length > 0 ? [`setopt ${early.join(' ')}\n`] : []),
      `${named.functionPath}\n`,
      `${named.functions}\n`,
      ...builtins([`setopt aliases ${late.join(' ')}\n`]),
    ];
  },
  sh: ({ named }) => [
    `${named.functions}\n`,
    ...plainAliases(named.aliases),
    ...setOptions(named.options, (sign, name) => sign === '-' && !SH_OF_ONE_RUN.has(name)),
  ],
};

/** What says how a shell was started, not how the user wants it. */
const ZSH_OF_ONE_RUN = new Set([
  'interactive',
  'login',
  'monitor',
  'privileged',
  'restricted',
  'shinstdin',
  'zle',
]);
const ZSH_LATE = new Set(['allexport', 'errexit', 'errreturn', 'noaliases', 'nounset', 'verbose', 'xtrace']);
const SH_OF_ONE_RUN = new Set(['interactive', 'stdin', 'monitor', 'privileged', 'noexec', 'nolog', 'debug']);

function linesMatching(text: string | undefined, pattern: RegExp): string[] {
  return (text ?? '')
    .split('\n')
    .filter((line) => pattern.test(line))
    .map((line) => `${line}\n`);
}

/** One `set` with all options that are wanted; nothing when there are none, because a bare `set` prints. */
function setOptions(text: string | undefined, wanted: (sign: string, name: string) => boolean): string[] {
  const options = [...(text ?? '').matchAll(/^set ([-+])o ([a-z-]+)$/gm)]
    .filter(([, sign, name]) => wanted(sign!, name!))
    .map(([, sign, name]) => `${sign}o ${name}`);
  return options.length === 0 ? [] : [`set ${options.join(' ')}\n`];
}

/** Commands that no function of the user's can take the place of. */
function builtins(lines: readonly string[]): string[] {
  return lines.map((line) => `builtin ${line}`);
}

/**
 * Aliases as POSIX lets a shell list them, without the word `alias`. A text that does not read as one definition after the other is
 * left out as a whole: what is not well quoted would end the shell.
 */
function plainAliases(text: string | undefined): string[] {
  const definitions: string[] = [];
  let rest = text ?? '';
  while (rest !== '') {
    const definition = DEFINITION.exec(rest);
    if (definition === null) return [];
    definitions.push(`alias ${definition[1]}\n`);
    rest = rest.slice(definition[0].length);
  }
  return definitions;
}

const DEFINITION = /^(?:alias )?([\w!%,@.-]+=(?:'[^']*'|"'+"|\\'|[\w/.:@%+,-])*)\n/;
