import { type CommandSpec, type FlagSpecs, HELP, JSON_FLAG } from '../command-spec.ts';
import { TARGET_FLAGS } from './environment-specs.ts';

/** Flags of `recordings`. */
export const RECORDINGS_FLAGS = {
  'all-owners': {
    type: 'boolean',
    description: 'The recordings of every owner. On a server with tokens it needs the scope observe.',
  },
  ...TARGET_FLAGS,
  json: JSON_FLAG,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `recordings`. */
export const RECORDINGS = {
  usage: ['[--all-owners] [-E ENV] [--json]'],
  description: `\
Lists the recordings of your programs on a server, the oldest first. play and export take the reference (REF) or the name; of several \
recordings with one name they take the latest.

run --record and shell --record make recordings. A server with --record-dir records all programs. Recordings are removed after some \
time: see --recording-retention and --max-recordings-bytes of serve.`,
  flags: RECORDINGS_FLAGS,
  examples: [
    { line: 'recordings', meaning: 'List the recordings on this machine.' },
    { line: 'recordings -E gpu --json', meaning: 'Print a JSON array of those on another machine.' },
  ],
} as const satisfies CommandSpec;

/** Flags of `play`. */
export const PLAY_FLAGS = {
  speed: { type: 'string', short: 's', value: 'N', description: 'Play N times as fast: 2, 0.5. Default: 1' },
  'idle-limit': {
    type: 'string',
    short: 'i',
    value: 'TIME',
    description:
      'Shorten pauses to a time such as 500ms or 2s. Default: that of the recording, if it has one',
  },
  ...TARGET_FLAGS,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `play`. */
export const PLAY = {
  usage: ['[--speed N] [--idle-limit TIME] [-E ENV] FILE|REF|NAME'],
  description: `\
Plays a recording on the terminal, as it happened: a file in the format asciicast v2 or v3, or a recording of a server by the reference \
or name of its program. A file of this name on this machine comes first, unless -E is given.

The recording has the size of the terminal that it was made on; a smaller one shows it garbled. Play only recordings that you trust: \
what a program wrote to its terminal goes to yours.`,
  operand: 'RECORDING',
  flags: PLAY_FLAGS,
  notes: {
    Keys: 'space  pause and continue\n.      the next step, while it pauses\nq      end; also Ctrl-C',
  },
  examples: [
    { line: 'play --idle-limit 1s build', meaning: 'Play the latest recording of the program build.' },
    { line: 'play -s 4 demo.cast', meaning: 'Play a file four times as fast.' },
  ],
} as const satisfies CommandSpec;

/** Flags of `export`. */
export const EXPORT_FLAGS = {
  v2: { type: 'boolean', description: 'The format asciicast v2, which asciinema 2 and older players read.' },
  txt: {
    type: 'boolean',
    description: 'The text that the terminal showed, without colours and other sequences.',
  },
  output: {
    type: 'string',
    short: 'o',
    value: 'FILE',
    description: 'Write to this file, which must not exist. Default: -, which is stdout',
  },
  ...TARGET_FLAGS,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `export`. */
export const EXPORT = {
  usage: ['[--v2 | --txt] [-o FILE] [-E ENV] FILE|REF|NAME'],
  description: `\
Prints a recording: as it is, in the format asciicast v3, or in another format. It is a file, or a recording of a server by the reference \
or name of its program. A file of this name on this machine comes first, unless -E is given.

With --txt, a line that a program has drawn several times, such as a progress bar, is printed as it was at last. What a program showed on \
the alternate screen, such as an editor, is left out unless the recording ends there.`,
  operand: 'RECORDING',
  flags: EXPORT_FLAGS,
  examples: [
    { line: 'export -E gpu -o train.cast train', meaning: 'Fetch the latest recording of a program.' },
    { line: 'export --txt build | less', meaning: 'Read what a program has printed.' },
    { line: 'export --v2 build > build.cast', meaning: 'Convert it for asciinema 2.' },
  ],
} as const satisfies CommandSpec;
