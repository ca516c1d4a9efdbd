import { type CommandSpec, type FlagSpecs, HELP, JSON_FLAG } from '../command-spec.ts';
import { TARGET_FLAGS } from './environment-specs.ts';

/** Flags of `ps`. */
export const PS_FLAGS = {
  all: { type: 'boolean', short: 'a', description: 'Also those that have ended.' },
  'all-owners': {
    type: 'boolean',
    description: 'The processes of every owner. On a server with tokens it needs the scope observe.',
  },
  ...TARGET_FLAGS,
  json: JSON_FLAG,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `ps`. */
export const PS = {
  usage: ['[-a] [--all-owners] [-E ENV] [--json]'],
  description: `\
Lists your programs on a server, whichever client started them: those of all clients with tokens of the same subject, or of all clients \
of a server without tokens.

Other commands take the reference (REF) or the name. A program that has ended stays in the list of -a as long as its output is \
retained.`,
  flags: PS_FLAGS,
  examples: [
    { line: 'ps', meaning: 'List the programs that run.' },
    { line: 'ps -a -E gpu --json', meaning: 'Print a JSON array of all programs of another machine.' },
  ],
} as const satisfies CommandSpec;

/** Flags of `logs`. */
export const LOGS_FLAGS = {
  follow: { type: 'boolean', short: 'f', description: 'Also print new output, until the program has ended.' },
  tail: { type: 'string', short: 'n', value: 'N', description: 'Begin with the last N lines.' },
  'since-seq': {
    type: 'string',
    value: 'N',
    description: 'Begin after the event with this number, which --json prints as seq.',
  },
  timestamps: {
    type: 'boolean',
    description: 'Print before each line when the server read it, in UTC: 2026-01-31T09:30:00.000Z.',
  },
  ...TARGET_FLAGS,
  json: { type: 'boolean', description: 'Print each event as a line of JSON.' },
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `logs`. */
export const LOGS = {
  usage: ['[-f] [--tail N | --since-seq N] [--timestamps] [-E ENV] [--json] REF|NAME'],
  description: `\
Prints the output that the server retains of a program, byte for byte: what the program wrote to stderr goes to stderr, everything \
else to stdout. The server retains 1 MiB of each stream unless it is configured otherwise.

Where output is missing, a line on stderr says how much, and the exit code is 1. With --tail and --since-seq only what they ask for \
counts.`,
  operand: 'PROCESS',
  flags: LOGS_FLAGS,
  notes: {
    'Exit codes': `\
0    the output is complete; with -f the program has ended, with any exit code
1    output is missing
125  exec-server failed, or has lost the server
141  nothing reads the output any more`,
  },
  examples: [
    { line: 'logs -f --tail 20 web', meaning: 'Print the last 20 lines, and what follows.' },
    { line: 'logs build > build.log', meaning: 'Save the output of a program.' },
  ],
} as const satisfies CommandSpec;

/** Flags of `wait`. */
export const WAIT_FLAGS = {
  timeout: {
    type: 'string',
    value: 'TIME',
    description: 'Give up after a time such as 90s, 10m or 2h. Default: wait without a limit.',
  },
  ...TARGET_FLAGS,
  json: JSON_FLAG,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `wait`. */
export const WAIT = {
  usage: ['[--timeout TIME] [-E ENV] [--json] REF|NAME...'],
  description: `\
Waits until all the programs have exited. Its exit code is that of the first one in the order of the command line that has failed, \
else 0. A program that has ended already counts too.

With --json it prints how each of them ended, as a JSON array.`,
  operand: 'PROCESS',
  flags: WAIT_FLAGS,
  notes: {
    'Exit codes': `\
N    the exit code of the program; 128 + n when signal n ended it
124  --timeout has passed, or a limit of the server ended the program
125  exec-server failed, or has lost the server`,
  },
  examples: [
    { line: 'wait tests lint', meaning: 'Wait for two programs; fail if one of them fails.' },
    { line: 'wait --timeout 10m build', meaning: 'Wait for at most ten minutes.' },
  ],
} as const satisfies CommandSpec;

/** Flags of `kill`. */
export const KILL_FLAGS = {
  signal: {
    type: 'string',
    short: 's',
    value: 'SIGNAL',
    description: 'Send this signal instead, by name or number: HUP, SIGUSR1, 2. Also without -s: -HUP, -2.',
  },
  ...TARGET_FLAGS,
  json: JSON_FLAG,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `kill`. */
export const KILL = {
  usage: ['[-s SIGNAL] [-E ENV] [--json] REF|NAME...'],
  description: `\
Ends programs and everything that they have started, without delay, and returns when they have ended.

With -s it only sends the signal, to the process group of the program, and does not wait. To let a program clean up, send TERM, wait \
with a timeout, and then kill what still runs.

If one of the programs is unknown or has ended, nothing is sent to any of them.`,
  operand: 'RUNNING',
  flags: KILL_FLAGS,
  examples: [
    { line: 'kill web', meaning: 'End a program and everything that it has started.' },
    { line: 'kill -s TERM web', meaning: 'Ask a program to end.' },
  ],
} as const satisfies CommandSpec;

/** Flags of `rm`. */
export const RM_FLAGS = {
  force: {
    type: 'boolean',
    short: 'f',
    description: 'End a program that runs, and everything it has started.',
  },
  ...TARGET_FLAGS,
  json: JSON_FLAG,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `rm`. */
export const RM = {
  usage: ['[-f] [-E ENV] [--json] REF|NAME...'],
  description: `\
Removes programs that have ended from the list of ps -a, with their retained output. The server does so itself after the time that it \
retains output, an hour for detached programs.

If one of the programs is unknown, or runs and -f is not given, nothing is removed.`,
  operand: 'ENDED',
  flags: RM_FLAGS,
  examples: [
    { line: 'rm build tests', meaning: 'Remove two programs that have ended.' },
    { line: 'rm -f web', meaning: 'End a program without delay and remove it.' },
  ],
} as const satisfies CommandSpec;
