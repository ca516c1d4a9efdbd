import { type CommandSpec, HELP, JSON_FLAG } from '../command-spec.ts';

/** The command `drain`. */
export const DRAIN = {
  usage: [
    '[--timeout TIME] [--json]',
    '--service [--user] [--timeout TIME] [--json]',
    '--pid-file FILE|--pid PID [--timeout TIME] [--json]',
  ],
  description: `\
Ends a server of this machine without interrupting its programs. The server reports that it is not ready, and refuses new work. Clients \
are notified; they can come back to their sessions. New ones can look at programs, control them and read files: 'ps', 'attach', 'logs', \
'wait' and 'kill' work, and 'cp' and 'sync' from the server. When the last program has ended, the server ends too, and so does this command, which lists them. After the \
server's --drain-timeout it ends the programs that are left.

Without flags it drains the private server of this user. It sends SIGUSR2, so it needs the rights of the server's user. Interrupting the \
command does not stop the draining; SIGTERM to the server ends it sooner.`,
  flags: {
    service: { type: 'boolean', description: 'The server that systemd manages: exec-server.service.' },
    user: { type: 'boolean', description: 'With --service: the service of this user.' },
    'pid-file': {
      type: 'string',
      value: 'FILE',
      description: "The server that has written this file: 'serve --pid-file FILE'.",
    },
    pid: {
      type: 'string',
      value: 'PID',
      description: 'The server with this process id. Its program must be named exec-server.',
    },
    timeout: {
      type: 'string',
      value: 'TIME',
      description:
        'End the programs that are left after this time, such as 5m. Default: when the server does',
    },
    json: {
      ...JSON_FLAG,
      description:
        'Print one JSON object per line: draining, with the programs; ended, with timedOut; or notRunning.',
    },
    help: HELP,
  },
  examples: [
    { line: 'drain --service', meaning: 'Drain the service of this machine, for example before an upgrade.' },
    { line: 'drain --pid-file /run/exec-server.pid --timeout 5m', meaning: 'Wait for at most five minutes.' },
  ],
} as const satisfies CommandSpec;
