import { type CommandSpec, documented, HELP } from '../command-spec.ts';
import { CODEX_FLAGS, REMOTE_TRANSPORT_FLAGS } from '../reference-flags.ts';

/** Flags of `connect`. */
export const CONNECT_FLAGS = {
  connect: { type: 'string' },
  remote: { type: 'string' },
  'environment-id': { type: 'string' },
  name: { type: 'string' },
  'executor-credential-stdin': { type: 'boolean' },
  'use-agent-identity-auth': { type: 'boolean' },
  'exit-on-stdin-close': { type: 'boolean' },
  ...CODEX_FLAGS,
  ...REMOTE_TRANSPORT_FLAGS,
  help: HELP,
} as const;

const REFUSED = 'Refused: only the direct transport uses it.';
const NO_EFFECT = 'Accepted without effect: it is for servers and codex.';

/** The command `connect`, formerly `forward`. */
export const CONNECT: CommandSpec = {
  usage: ['--connect URL --remote URL --environment-id ID [options]'],
  description: `\
Makes a server on this machine reachable through a relay. Each client gets its own connection to the server. When either end is lost, \
both connections close. 'exec-server forward' is the same command.`,
  flags: documented(CONNECT_FLAGS, {
    connect: { value: 'URL', description: 'The server: ws://HOST:PORT or wss://HOST:PORT.' },
    remote: { value: 'URL', description: 'The registry: https://HOST, or http:// on this machine.' },
    'environment-id': { value: 'ID', description: 'The environment under which clients find the server.' },
    name: { value: 'NAME', description: 'The name of this forwarder in logs.' },
    'executor-credential-stdin': {
      description:
        'Read credentials for the registry from stdin, as lines of JSON; the forwarder ends when stdin ends.',
    },
    'use-agent-identity-auth': {
      description:
        "Sign in at the registry with the agent's token in CODEX_ACCESS_TOKEN. By default the first one of these is used: EXEC_SERVER_API_KEY, workload identity, CODEX_API_KEY, CODEX_ACCESS_TOKEN, the login of codex.",
    },
    'exit-on-stdin-close': { description: 'End when stdin ends.' },
    config: {
      value: 'KEY=VALUE',
      description:
        'Set a key of codex that decides how to sign in, such as forced_login_method. Other keys have no effect.',
    },
    enable: { value: 'FEATURE', description: NO_EFFECT },
    disable: { value: 'FEATURE', description: NO_EFFECT },
    'strict-config': { description: 'Refuse keys and features that have no effect.' },
    'linux-sandbox-pid-namespace': { value: 'MODE', description: NO_EFFECT },
    'proxy-private-ips-via-upstream': { description: NO_EFFECT },
    'remote-transport': {
      value: 'noise',
      description: 'The transport. direct is refused: it cannot forward.',
    },
    'aws-sigv4': { description: REFUSED },
    'aws-profile': { value: 'PROFILE', description: REFUSED },
    'aws-region': { value: 'REGION', description: REFUSED },
    'aws-service': { value: 'SERVICE', description: REFUSED },
    help: HELP,
  }),
  examples: [
    {
      line: 'connect --connect ws://127.0.0.1:4000 --remote https://relay.example --environment-id build-7',
      meaning: 'Let clients of the relay use the server on port 4000.',
    },
    {
      line: 'connect --connect ws://127.0.0.1:4000 --remote http://127.0.0.1:8080 --environment-id build-7',
      meaning: 'The same with a relay on this machine.',
    },
  ],
};
