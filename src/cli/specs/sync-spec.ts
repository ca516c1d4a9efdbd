import { type CommandSpec, type FlagSpecs, HELP } from '../command-spec.ts';
import { TARGET_FLAGS } from './environment-specs.ts';

/** Flags of `sync`. */
export const SYNC_FLAGS = {
  watch: {
    type: 'boolean',
    short: 'w',
    description: 'Afterwards copy every change of SRC, until Ctrl-C.',
  },
  delete: {
    type: 'boolean',
    description: 'Delete what only DST has. Ignored files stay.',
  },
  'dry-run': {
    type: 'boolean',
    short: 'n',
    description: 'Print what would be done, and do nothing.',
  },
  exclude: {
    type: 'string',
    multiple: true,
    value: 'PATTERN',
    description: 'Ignore what matches, as a line of .gitignore in SRC would. May be given several times.',
  },
  ...TARGET_FLAGS,
  json: { type: 'boolean', description: 'Print one JSON object per line: each step, failure and pass.' },
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `sync`. */
export const SYNC = {
  usage: [
    '[--watch] [--delete] [--dry-run] [--exclude PATTERN]... SRC ENV:/DST',
    '[--watch] [--delete] [--dry-run] [--exclude PATTERN]... ENV:/SRC DST',
  ],
  description: `\
Makes the directory DST equal to the directory SRC by copying only what differs. One of them is on this machine, the other in an \
environment: a name, a URL such as ws://HOST:PORT, or local. The content of SRC becomes the content of DST, with modes, times of files \
and symbolic links.

Files with the same size and time are equal. With the same size and another time their SHA-256 decides. Each file is replaced in one \
step, and checked. A file that fails does not stop the others.

What .gitignore and .execignore files in SRC name is neither copied nor deleted; .execignore overrides .gitignore. A .git directory is \
copied as a whole.

Without --delete, what only DST has stays. As in rsync, a file, a link or an empty directory gives way to another kind of entry with the \
same name in SRC, and counts as deleted; a directory with something in it does not. When something fails, --delete deletes nothing.`,
  operand: 'ENV:PATH',
  flags: SYNC_FLAGS,
  notes: {
    'Exit codes': `\
0    DST is equal to SRC, or --watch was interrupted
2    bad usage
125  something failed or was skipped; stderr says what. The rest is complete
130  interrupted by Ctrl-C, without --watch; 143 by SIGTERM`,
  },
  examples: [
    {
      line: 'sync --watch . gpu:/srv/app',
      meaning: 'Copy this directory to the environment gpu, and then every change.',
    },
    {
      line: 'sync --delete gpu:/srv/app/results results',
      meaning: 'Make results equal to the directory on gpu.',
    },
    { line: "sync -n --exclude '*.log' . gpu:/srv/app", meaning: 'Print what would be copied.' },
  ],
} as const satisfies CommandSpec;
