import type { ShellKind } from './login-command.ts';

/** The parts of a state in the order in which a shell prints them; the variables follow. */
export const STATE_PARTS = {
  bash: ['options', 'shellOptions', 'functions', 'exportedFunctions', 'aliases'],
  zsh: ['options', 'functions', 'functionPath', 'aliases'],
  sh: ['options', 'functions', 'aliases'],
} as const satisfies Record<ShellKind, readonly string[]>;

/**
 * What a login shell runs to show its state on stdout: the mark, then the parts and after them the variables, each ended by a NUL
 * byte, then the mark again. What the user's own files print comes before and is told apart by the mark, which nobody can guess.
 *
 * The file for interactive shells is read too: many people keep everything there. The words of the script are spelled so that the
 * user's functions and aliases do not get in the way, and it sets no variable, because it might be exported.
 */
export function captureScript(kind: ShellKind, mark: string): string {
  return SCRIPTS[kind].replaceAll('@MARK@', mark);
}

/** Options that would disturb the rest are off once they have been printed. */
const BASH = String.raw`
if [ -z "${'$'}{BASH_ENV-}" ] && [ -n "${'$'}{HOME-}" ] && [ -r "$HOME/.bashrc" ]; then . "$HOME/.bashrc"; fi
\builtin trap - DEBUG ERR
\builtin printf '\0%s\0' @MARK@
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
\builtin printf '\0%s\0' @MARK@
`;

const ZSH = String.raw`
if [ -r "${'$'}{ZDOTDIR:-$HOME}/.zshrc" ]; then . "${'$'}{ZDOTDIR:-$HOME}/.zshrc"; fi
\builtin printf '\0%s\0' @MARK@
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
\builtin printf '\0%s\0' @MARK@
`;

/** Not every sh can show its functions; then they are missing. */
const SH = String.raw`
if [ -n "${'$'}{ENV-}" ] && [ -r "$ENV" ]; then . "$ENV"; fi
\command printf '\0%s\0' @MARK@
\command set +o
\command set +aefuvx
\command printf '\0'
\command typeset -f 2>/dev/null
\command printf '\0'
\command alias
\command printf '\0'
/usr/bin/env -0 || \command env -0 || \command exit 1
\command printf '\0%s\0' @MARK@
`;

const SCRIPTS: Readonly<Record<ShellKind, string>> = { bash: BASH, zsh: ZSH, sh: SH };
