import { type CommandSpec, type FlagSpecs, HELP, JSON_FLAG } from '../command-spec.ts';

const NO_FLAGS = { help: HELP } as const satisfies FlagSpecs;
const ONLY_JSON = { json: JSON_FLAG, help: HELP } as const satisfies FlagSpecs;

/** The command `audit`. */
export const AUDIT = {
  usage: ['verify [--json] FILE...'],
  description: `\
Verifies that an audit log (--audit-log) is one unbroken chain: each line has the SHA-256 of the line before it. Several files are one \
log that was rotated; name the oldest first. Prints the number of lines and the hash of the last one, or names the first wrong line and \
exits with 1.

Anyone who can write the file can rewrite all of it: store the hash elsewhere, and check later that the log still contains it.`,
  verbs: { verify: 'Verify a log' },
  operand: 'FILE',
  flags: ONLY_JSON,
  examples: [
    { line: 'audit verify audit.jsonl', meaning: 'Verify one file.' },
    { line: 'audit verify audit.jsonl.1 audit.jsonl', meaning: 'Verify a log that was rotated.' },
  ],
} as const satisfies CommandSpec;

/** The command `doctor`. */
export const DOCTOR = {
  usage: ['[--json]'],
  description: `\
Examines what this machine offers to a server that this user starts with this environment. It checks the parts that sandboxes need. Then \
programs try to escape from a sandbox; the attempts are real but harmless. Each attempt also runs without a sandbox: if it fails there \
too, it proves nothing (?). A fix follows each check that failed (✗) or found something missing (-).

Exits with 1 when sandboxes are not reliable; missing parts alone do not count.`,
  flags: ONLY_JSON,
  examples: [
    { line: 'doctor', meaning: 'Examine this machine.' },
    { line: 'doctor --json', meaning: 'The same for a program.' },
  ],
} as const satisfies CommandSpec;

/** The command `completion`. */
export const COMPLETION = {
  usage: ['bash|zsh|fish'],
  description: `\
Prints a script that completes command lines in this shell. The script asks exec-server for the candidates, so it stays right after an \
update.`,
  verbs: { bash: 'For bash', zsh: 'For zsh', fish: 'For fish' },
  flags: NO_FLAGS,
  examples: [
    {
      line: 'completion bash > ~/.local/share/bash-completion/completions/exec-server',
      meaning: 'For bash.',
    },
    { line: 'completion fish > ~/.config/fish/completions/exec-server.fish', meaning: 'For fish.' },
    { line: 'completion zsh > ~/.zfunc/_exec-server', meaning: 'For zsh, with ~/.zfunc in fpath.' },
  ],
} as const satisfies CommandSpec;

/** The command `help`. */
export const HELP_COMMAND = {
  usage: ['[COMMAND]'],
  description: 'Prints the list of commands, or the help of one.',
  operand: 'COMMAND',
  flags: NO_FLAGS,
  examples: [
    { line: 'help', meaning: 'List the commands.' },
    { line: 'help serve', meaning: 'Describe serve and its settings.' },
  ],
} as const satisfies CommandSpec;

/** The command `version`. */
export const VERSION_COMMAND = {
  usage: ['[--json]'],
  description: 'Prints the version of exec-server; with --json also that of Node and the platform.',
  flags: ONLY_JSON,
  examples: [
    { line: 'version', meaning: 'Print the version.' },
    { line: 'version --json', meaning: 'Print what a bug report needs.' },
  ],
} as const satisfies CommandSpec;
