import { type CommandSpec, type FlagSpecs, HELP, JSON_FLAG } from '../command-spec.ts';
import { TARGET_FLAGS } from './environment-specs.ts';

/** Flags of `cp`. */
export const CP_FLAGS = {
  recursive: { type: 'boolean', short: 'r', description: 'Copy directories with everything in them' },
  preserve: {
    type: 'boolean',
    short: 'p',
    description: 'Keep modification times, and set the modes of directories that exist',
  },
  quiet: { type: 'boolean', short: 'q', description: 'Show no progress' },
  json: JSON_FLAG,
  ...TARGET_FLAGS,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `cp`. */
export const CP = {
  usage: ['[-r] [-p] SRC… DST'],
  description: `\
Copies files between this machine and environments. A path ENV:PATH is in an environment: a name, local for the private server of this \
machine, or a URL such as ws://HOST:PORT. :PATH is in the environment of -E. Any other path is on this machine; write ./a:b for a name with \
a colon. Both sides may be environments: the bytes pass through this machine.

A relative path of an environment is relative to the home directory there. If DST is a directory, or there are several sources, each copy \
gets the name of its source in it. Otherwise DST is the copy itself. Missing parent directories are created.

Files have the mode of their source, without set-user-ID, set-group-ID and sticky bits. Symbolic links stay links; one that is named as SRC \
is followed. Each file appears under its name when it is complete and its SHA-256 is right. If a file of 8 MiB or more is interrupted, its \
part stays beside the target for a week, and the same command continues it.`,
  operand: 'ENV:PATH',
  flags: CP_FLAGS,
  notes: {
    'Exit codes': `\
0    everything was copied
2    bad usage
125  something failed or was skipped, such as a socket; stderr says what
130  interrupted by Ctrl-C; 143 by SIGTERM`,
  },
  examples: [
    { line: 'cp -r src/ gpu:work/', meaning: 'Copy a directory into the directory work at home on gpu.' },
    { line: 'cp gpu:/var/log/build.log .', meaning: 'Fetch a file.' },
    {
      line: 'cp -p model.bin gpu:models/ && exec-server cp -r gpu:models backup:',
      meaning: 'Copy from one machine to another.',
    },
  ],
} as const satisfies CommandSpec;
