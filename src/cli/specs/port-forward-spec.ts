import { type CommandSpec, type FlagSpecs, HELP } from '../command-spec.ts';
import { TARGET_FLAGS } from './environment-specs.ts';

/** Flags of `port-forward`. */
export const PORT_FORWARD_FLAGS = {
  ...TARGET_FLAGS,
  auto: {
    type: 'boolean',
    description:
      'Forward every port that your programs listen on, for as long as they do. A local port that is taken is replaced by another one.',
  },
  socks: {
    type: 'string',
    short: 'D',
    value: 'PORT',
    description:
      'Listen on this loopback port for SOCKS5 clients and connect them with what the server reaches. 0 is any free port.',
  },
  'reconnect-timeout': {
    type: 'string',
    value: 'TIME',
    description: 'Give up when a lost server cannot be reached for this time: 90s, 15m, 8h. Default: never',
  },
  json: { type: 'boolean', description: 'Print one JSON object per event.' },
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `port-forward`. */
export const PORT_FORWARD = {
  usage: ['[-E ENV] [BIND:]LOCAL[:HOST]:REMOTE…', '[-E ENV] --auto', '[-E ENV] -D PORT'],
  description: `\
Makes ports of an environment reachable on this machine until Ctrl-C, which ends it with the exit code 0. It prints a line for each port \
that listens.

8080 is the same port on both sides, 9000:8080 another local one, 0:8080 any free one. 9000:db.internal:5432 leads to another host, which \
the server must allow (--tcp-allowed-hosts). The local address is 127.0.0.1 unless BIND says otherwise: 0.0.0.0:9000:8080 lets other \
machines connect. IPv6 addresses are written in brackets.

A lost connection to the server resets the open streams. The local ports stay open, and new connections wait up to 30 s for the server to \
be reached again.`,
  operand: 'PORT',
  flags: PORT_FORWARD_FLAGS,
  examples: [
    {
      line: 'port-forward 8080',
      meaning: 'Port 8080 of this machine leads to port 8080 of the environment.',
    },
    {
      line: 'port-forward -E gpu 9000:8080 0:5432',
      meaning: 'Local port 9000 leads to 8080 there, and a free one to 5432.',
    },
    { line: 'port-forward -E gpu --auto', meaning: 'Forward the ports of programs as they open them.' },
    { line: 'port-forward -E gpu -D 1080', meaning: 'Browse with socks5h://127.0.0.1:1080 as the proxy.' },
  ],
} as const satisfies CommandSpec;
