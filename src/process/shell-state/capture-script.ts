import type { ShellKind } from './login-command.ts';

/** The parts of a state in the order in which a shell prints them; the exported variables follow. */
export const STATE_PARTS = {
  bash: ['options', 'shellOptions', 'functions', 'exportedFunctions', 'aliases'],
  zsh: ['options', 'functions', 'functionPath', 'aliases'],
  sh: ['options', 'functions', 'aliases'],
} as const satisfies Record<ShellKind, readonly string[]>;

/**
 * The script with which a login shell prints its state to stdout: a delimiter, the parts and then the variables, each ended by a
 * NUL byte, and the delimiter again. Output of the user's own files comes before the first delimiter, which is random.
 *
 * The script also reads the file for interactive shells, where many users keep everything. It quotes its commands so that the
 * user's functions and aliases do not replace them. It sets no variable, because that might be exported.
 */
export function captureScript(kind: ShellKind, delimiter: string): string {
  return SCRIPTS[kind].replaceAll('@DELIMITER@', delimiter);
}

/** Options that would disturb the rest are switched off after they have been printed. */
const BASH = String.raw`
if [ -z "${'$'}{BASH_ENV-}" ] && [ -n "${'$'}{HOME-}" ] && [ -r "$HOME/.bashrc" ]; then . "$HOME/.bashrc"; fi
\builtin trap - DEBUG ERR
\builtin printf '\0%s\0' @DELIMITER@
\builtin set +o
\builtin set +aefuvx
\builtin printf '\0'
\builtin shopt -p
\builtin printf '\0'
\builtin declare -f
\builtin printf '\0'
\builtin declare -Fx
\builtin printf '\0'
\builtin alias -p
\builtin printf '\0'
/usr/bin/env -0 || \command env -0 || \builtin exit 1
\builtin printf '\0%s\0' @DELIMITER@
`;

const ZSH = String.raw`
if [ -r "${'$'}{ZDOTDIR:-$HOME}/.zshrc" ]; then . "${'$'}{ZDOTDIR:-$HOME}/.zshrc"; fi
\builtin printf '\0%s\0' @DELIMITER@
\builtin setopt
\builtin unsetopt errexit errreturn nounset verbose xtrace allexport kshoptionprint
\builtin printf '\0'
\builtin typeset -f
\builtin printf '\0'
\builtin typeset -p fpath
\builtin printf '\0'
\builtin alias -L
\builtin printf '\0'
/usr/bin/env -0 || \command env -0 || \builtin exit 1
\builtin printf '\0%s\0' @DELIMITER@
`;

/** Some implementations of sh cannot print their functions; these are missing then. */
const SH = String.raw`
if [ -n "${'$'}{ENV-}" ] && [ -r "$ENV" ]; then . "$ENV"; fi
\command printf '\0%s\0' @DELIMITER@
\command set +o
\command set +aefuvx
\command printf '\0'
\command typeset -f 2>/dev/null
\command printf '\0'
\command alias
\command printf '\0'
/usr/bin/env -0 || \command env -0 || \command exit 1
\command printf '\0%s\0' @DELIMITER@
`;

const SCRIPTS: Readonly<Record<ShellKind, string>> = { bash: BASH, zsh: ZSH, sh: SH };
