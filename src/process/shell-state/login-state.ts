import { isUtf8 } from 'node:buffer';
import { STATE_PARTS } from './capture-script.ts';
import { MAX_EXPORTED_BYTES, MAX_STATE_BYTES, MAX_VARIABLE_BYTES } from './limits.ts';
import type { ShellKind } from './login-command.ts';

/** The state of a login shell after it has read the user's files. */
export interface LoginState {
  /** A script that restores functions, options and aliases in a new shell of the same kind. It prints nothing. */
  readonly script: Buffer;
  /** The exported variables, without those that change with every run: PWD, OLDPWD, SHLVL and `_`. */
  readonly exported: Readonly<Record<string, string>>;
  readonly bytes: number;
}

/** Parses the output of {@link captureScript}; null when it cannot be used. */
export function loginStateOf(kind: ShellKind, content: Buffer): LoginState | null {
  const parts = splitParts(kind, content);
  if (parts === null) return null;
  const script = Buffer.concat(SCRIPT_MAKERS[kind](parts).map((line) => Buffer.from(line, 'latin1')));
  const exported = parts.variables.length > MAX_EXPORTED_BYTES ? null : exportedVariables(parts.variables);
  if (exported === null || script.length > MAX_STATE_BYTES) return null;
  return { script, exported, bytes: script.length + parts.variables.length };
}

/** Texts have one character per byte, because a function may contain any bytes. */
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

/** Null when one is larger than the kernel accepts. Omits variables that are not UTF-8, because a child's environment is text. */
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
 * Builds the script that restores each kind of shell. Aliases come before the functions, whose names may hide commands that the
 * script needs. They are not expanded before the end, because they would change the functions. Options come last, in one command:
 * those that stop or trace a shell must not affect the rest. Options that a shell needs to parse the functions come first.
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

/** Options that depend on how a shell was started, not on the user's choice. */
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

/** One `set` command with all wanted options; nothing without options, because a bare `set` prints. */
function setOptions(text: string | undefined, wanted: (sign: string, name: string) => boolean): string[] {
  const options = [...(text ?? '').matchAll(/^set ([-+])o ([a-z-]+)$/gm)]
    .filter(([, sign, name]) => wanted(sign!, name!))
    .map(([, sign, name]) => `${sign}o ${name}`);
  return options.length === 0 ? [] : [`set ${options.join(' ')}\n`];
}

/** Prefixes commands so that no function of the user can replace them. */
function builtins(lines: readonly string[]): string[] {
  return lines.map((line) => `builtin ${line}`);
}

/**
 * Aliases as a POSIX shell lists them, without the word `alias`. Drops the whole text if it is not a sequence of definitions, because
 * a badly quoted one would end the shell.
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
