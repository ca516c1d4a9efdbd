import { type CommandSpec, type FlagSpecs, HELP } from '../command-spec.ts';
import { TARGET_FLAGS } from './environment-specs.ts';

/** Flags of `console`. */
export const CONSOLE_FLAGS = {
  environment: {
    ...TARGET_FLAGS.environment,
    multiple: true,
    description:
      'An environment that the console shows: a name, a URL, or local for the private server. May be repeated; the first is shown first. Default: all that have a name, the default one first',
  },
  'token-file': TARGET_FLAGS['token-file'],
  port: {
    type: 'string',
    short: 'p',
    value: 'PORT',
    description: 'Serve the console on this port of 127.0.0.1. Default: any free one',
  },
  'read-only': {
    type: 'boolean',
    description:
      'Show programs and files without the rights to start, type, change or reach the network. The servers enforce it.',
  },
  open: { type: 'boolean', description: 'Open a browser, also without a terminal.' },
  'no-open': {
    type: 'boolean',
    sameAs: 'open',
    description: 'Do not open a browser. Default on a terminal with a display: open one',
  },
  link: {
    type: 'boolean',
    description:
      'Ask a server that runs with --console for a new link, print it, and end. The link has the rights of the token.',
  },
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `console`. */
export const CONSOLE = {
  usage: [
    '[-E ENV]… [--port PORT] [--read-only] [--no-open]',
    '--link -E URL [--token-file FILE] [--read-only]',
  ],
  description: `\
Serves the web console on a port of this machine until Ctrl-C, and prints a link to it. The console shows the programs of your \
environments, their terminals and output, and files. The connection to each environment is that of this command, with its token and \
certificates; the browser gets neither.

The link signs one browser in and can be used once, within a minute. Enter prints another one. The port answers only to 127.0.0.1 and \
localhost, and to no other web page.

A server that runs with --console serves its own console. --link prints a link to it.`,
  flags: CONSOLE_FLAGS,
  examples: [
    { line: 'console', meaning: 'Open the console of your environments.' },
    {
      line: 'console -E gpu --read-only',
      meaning: 'Show one environment to a viewer who must not change it.',
    },
    {
      line: 'console --link -E wss://build.example.com --token-file token',
      meaning: 'Print a link to the console of a server that runs with --console.',
    },
  ],
} as const satisfies CommandSpec;
