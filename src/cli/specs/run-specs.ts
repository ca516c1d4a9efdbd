import { type CommandSpec, type FlagSpecs, HELP } from '../command-spec.ts';
import { TARGET_FLAGS } from './environment-specs.ts';

/** Flags of `run`. */
export const RUN_FLAGS = {
  ...TARGET_FLAGS,
  interactive: {
    type: 'boolean',
    short: 'i',
    description: 'With -d: keep stdin open, for attach. Without -d it is always open.',
  },
  'no-stdin': {
    type: 'boolean',
    short: 'n',
    description: 'Give the program an empty stdin, and do not read that of this command.',
  },
  tty: {
    type: 'boolean',
    short: 't',
    description: 'Run on a terminal. Default: when stdin and stdout are terminals.',
  },
  detach: {
    type: 'boolean',
    short: 'd',
    description: 'Print the reference of the program when it has started, and leave it running.',
  },
  name: {
    type: 'string',
    value: 'NAME',
    description: 'A name for the program, for ps, attach, logs and kill.',
  },
  env: {
    type: 'string',
    short: 'e',
    multiple: true,
    value: 'NAME[=VALUE]',
    description: 'Set a variable. Without a value: as it is here.',
  },
  'env-file': {
    type: 'string',
    multiple: true,
    value: 'FILE',
    description: 'Set variables from lines of NAME=VALUE or NAME.',
  },
  workdir: {
    type: 'string',
    short: 'w',
    value: 'DIR',
    description:
      "The working directory. Default: the server's; over ssh the home directory; without -E this one.",
  },
  timeout: {
    type: 'string',
    value: 'TIME',
    description: 'End the program, and everything it has started, after a time such as 90s, 10m or 2h.',
  },
  sandbox: {
    type: 'string',
    value: 'MODE|FILE',
    description: 'Confine the program: read-only, workspace-write, or a JSON file with a policy.',
  },
  record: {
    type: 'boolean',
    description: "Record the output on the server; 'exec-server play REF' plays it. Secrets are masked.",
  },
  json: { type: 'boolean', description: 'Print one JSON object per line: started, output, exit.' },
  help: HELP,
} as const satisfies FlagSpecs;

const PROGRAM_CODE = 'The exit code is that of the program; 128+n if signal n ended it.';

const EXIT_CODES = `\
${PROGRAM_CODE}
124   it ran longer than --timeout, or exceeded a limit of the server
125   exec-server failed, lost the server, or lost output; stderr says whether the program still runs. Also after ~.
126   the program cannot be executed
127   there is no such program
130   Ctrl-C ended this command, 143 SIGTERM, 129 SIGHUP
2     bad usage`;

const ATTACH_EXIT_CODES = `\
${PROGRAM_CODE}
124   the server ended it at a limit
125   exec-server failed, lost the server, or lost output; stderr says whether the program still runs. Also after ~.
130   Ctrl-C ended this command, 143 SIGTERM, 129 SIGHUP
2     bad usage`;

const ESCAPES = `\
At the start of a line, when you type: ~. detaches, ~? lists the escapes, ~~ sends ~.`;

/** The command `run`. */
export const RUN = {
  usage: ['[-E ENV] [options] [--] PROGRAM [ARGUMENT...]'],
  description: `\
Runs a program in an environment, and ends with its exit code. Without an environment it runs on this machine, with the variables and in the \
directory of this command. Another environment gets neither; -e, --env-file and -w say what it gets.

The program and its arguments are executed as they are, without a shell. For a shell line write: run -- sh -c 'cd src && make'

The stdin of this command is that of the program, as with ssh. In a loop such as while read, -n leaves it to the loop. Ctrl-C sends SIGINT, and a second one within 2 s terminates the \
program and everything it has started. SIGTERM, SIGHUP and SIGQUIT are passed on. When the reader of stdout ends, the program gets SIGPIPE.

A lost connection is restored, and no output is repeated. A program that prints more than the server retains waits meanwhile. On a server that cannot hold output, the oldest output is lost: stderr says how much, and \
the exit code is 125. ~. leaves the program running, like -d. Otherwise it ends when \
this command is gone for good.`,
  operand: 'PROGRAM',
  flags: RUN_FLAGS,
  notes: { 'Exit codes': EXIT_CODES, Escapes: ESCAPES },
  examples: [
    { line: 'run -- npm test', meaning: 'Run a program and exit with its code.' },
    { line: 'run -E gpu -d --name train -- python train.py', meaning: 'Leave a program running.' },
    { line: 'run --sandbox read-only --timeout 10s -- ls', meaning: 'Confine and limit a program.' },
  ],
} as const satisfies CommandSpec;

/** Flags of `shell`. */
export const SHELL_FLAGS = {
  ...TARGET_FLAGS,
  name: { type: 'string', value: 'NAME', description: 'A name for the shell, for attach.' },
  record: {
    type: 'boolean',
    description:
      "Record what the shell shows on the server; 'exec-server play NAME' plays it. Secrets are masked.",
  },
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `shell`. */
export const SHELL = {
  usage: ['[-E ENV] [--name NAME] [--record]'],
  description: `\
Opens a login shell on a terminal. The shell keeps running when you detach, close the window or lose the connection; attach shows it \
again. On this machine it has the variables and the directory of this command.`,
  flags: SHELL_FLAGS,
  notes: { 'Exit codes': EXIT_CODES, Escapes: ESCAPES },
  examples: [
    { line: 'shell', meaning: 'Open a shell on this machine that survives the window.' },
    {
      line: 'shell -E gpu --name work',
      meaning: "Open one on another machine; 'attach work' shows it again.",
    },
  ],
} as const satisfies CommandSpec;

/** Flags of `attach`. */
export const ATTACH_FLAGS = {
  ...TARGET_FLAGS,
  'read-only': { type: 'boolean', description: 'Watch only: send neither input nor signals.' },
  'take-over': {
    type: 'boolean',
    description: 'Take the keyboard from the client that has it, which then watches.',
  },
  json: { type: 'boolean', description: 'Print one JSON object per line: attached, output, exit.' },
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `attach`. */
export const ATTACH = {
  usage: ['[-E ENV] REF|NAME [--read-only | --take-over] [--json]'],
  description: `\
Shows a running program and passes input on to it. A terminal is shown as it is now; a program without one from the first output that \
the server retains. When the program ends, attach ends with its exit code. Output that the server no longer had when attach began is reported on stderr and does not change the exit code. While another client has the keyboard, attach watches until it leaves.

Ctrl-C, SIGTERM and SIGHUP: on a terminal Ctrl-C is a key of the program. Without one it sends SIGINT, or ends attach with --read-only. \
SIGTERM and SIGHUP end attach, and the program keeps running. The end of stdin does not reach a program on a terminal.`,
  operand: 'PROCESS',
  flags: ATTACH_FLAGS,
  notes: { 'Exit codes': ATTACH_EXIT_CODES, Escapes: ESCAPES },
  examples: [
    { line: 'attach train', meaning: 'Show a program by its name.' },
    { line: 'attach -E gpu --read-only train', meaning: 'Watch it without touching it.' },
  ],
} as const satisfies CommandSpec;
