import { type CommandSpec, HELP, JSON_FLAG } from '../command-spec.ts';

/** The command `service`. */
export const SERVICE = {
  usage: [
    'install [options]',
    'uninstall [--user] [--relay] [--force]',
    'status [--user] [--relay] [--json]',
  ],
  description: `\
Runs a server as a service of systemd, or a relay with --relay. install writes a socket unit, a service unit, a file with settings and a \
token, and starts the socket; the first connection starts the server. Files that exist are kept: the token, and settings and units that \
were changed. uninstall stops the service and removes what install has written, except files that were changed since.

Without --user it needs root. The server then runs as an account of its own that systemd allocates, or as the one of --run-as.`,
  verbs: {
    install: 'Write the units and start the socket',
    uninstall: 'Stop the service and remove its files',
    status: 'Print the state and the files',
  },
  flags: {
    user: { type: 'boolean', description: 'A service of this user, who needs no rights of root.' },
    relay: { type: 'boolean', description: "Serve a relay: 'exec-server relay'." },
    listen: {
      type: 'string',
      value: 'URL',
      description:
        'Where to listen: ws://IP:PORT, wss://IP:PORT or unix:///PATH; a relay: http://IP:PORT or https://IP:PORT. Default: ws://127.0.0.1:4000, and http://127.0.0.1:4080 for a relay',
    },
    'run-as': { type: 'string', value: 'USER', description: 'The account of a service of the system.' },
    'dry-run': { type: 'boolean', description: 'Print the files and change nothing.' },
    force: { type: 'boolean', description: 'Replace or remove also what was changed.' },
    json: JSON_FLAG,
    help: HELP,
  },
  examples: [
    { line: 'service install --user', meaning: 'Run a server for this user.' },
    { line: 'service install --dry-run', meaning: 'Show the files of a service of the system.' },
  ],
} as const satisfies CommandSpec;
