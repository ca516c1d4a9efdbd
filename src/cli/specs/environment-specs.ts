import { type CommandSpec, type FlagSpecs, HELP, JSON_FLAG } from '../command-spec.ts';

/** Flags of every command that uses an environment. */
export const TARGET_FLAGS = {
  environment: {
    type: 'string',
    short: 'E',
    value: 'ENV',
    description:
      'The environment: a name, ws://HOST:PORT, wss://HOST, unix:///PATH, ssh://HOST, or local for the private server. Default: $EXEC_SERVER_URL, else what use has chosen, else local',
  },
  'token-file': {
    type: 'string',
    value: 'FILE',
    description: 'File with the token for the server. Default for a URL: $EXEC_SERVER_TOKEN',
  },
} as const satisfies FlagSpecs;

/** Flags of `env`. */
export const ENV_FLAGS = {
  ...TARGET_FLAGS,
  'environment-id': {
    type: 'string',
    value: 'ID',
    description: 'With add and the URL of a relay: the environment there. Default: the name',
  },
  'tls-ca': {
    type: 'string',
    value: 'FILE',
    description:
      "With add and wss:// or https://: the only authority that may sign the server's certificate. Default: what the system trusts, and $SSL_CERT_FILE",
  },
  'tls-cert': {
    type: 'string',
    value: 'FILE',
    description: 'With add and wss:// or https://: certificate of this client, for servers that ask for one',
  },
  'tls-key': {
    type: 'string',
    value: 'FILE',
    description: 'With add and wss:// or https://: key of that certificate',
  },
  json: JSON_FLAG,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `env`. */
export const ENV = {
  usage: [
    'ls [--json]',
    'add NAME URL [--token-file FILE] [--environment-id ID] [--tls-ca FILE] [--tls-cert FILE --tls-key FILE]',
    'test [NAME|URL] [--token-file FILE] [--json]',
    'rm NAME',
  ],
  description: `\
Names the machines that commands use with -E. The names are in exec-server/environments.toml of the config folder; comments in it are \
kept. Names in codex's environments.toml work too.

test connects and prints what it has reached, or exits with 125. The name local stands for the private server of this machine, which the \
first command starts and which ends when it is idle.`,
  verbs: {
    ls: 'List the environments',
    add: 'Add an environment',
    test: 'Connect to an environment',
    rm: 'Remove an environment',
  },
  operand: 'ENV',
  flags: ENV_FLAGS,
  examples: [
    { line: 'env add gpu wss://gpu.example --token-file ~/gpu.token', meaning: 'Name a server.' },
    { line: 'env add build ssh://me@build.example', meaning: 'Name a machine that ssh reaches.' },
    { line: 'env test gpu', meaning: 'Connect to it and print what it is.' },
  ],
} as const satisfies CommandSpec;

/** Flags of `use`. */
export const USE_FLAGS = {
  global: { type: 'boolean', description: 'For all directories without a choice of their own.' },
  unset: { type: 'boolean', description: 'Forget the choice.' },
  json: JSON_FLAG,
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `use`. */
export const USE = {
  usage: ['[--json]', 'NAME [--global] [--json]', '--unset [--global] [--json]'],
  description: `\
Chooses the environment of commands without -E, for this directory and those below it. Without a name it prints the environment that \
commands here use, and why.`,
  operand: 'ENV',
  flags: USE_FLAGS,
  examples: [
    { line: 'use gpu', meaning: 'Commands in this directory use the environment gpu.' },
    { line: 'use local --global', meaning: "Elsewhere they use this machine's private server." },
  ],
} as const satisfies CommandSpec;

/** The command `proxy`. */
export const PROXY = {
  usage: [''],
  description: `\
Connects stdin and stdout with this machine's private server, and starts the server if needed. 'ssh://HOST' environments run it on the \
other machine. A session survives the end of the proxy, so a lost ssh connection loses nothing. After the end of stdin it waits for answers, \
as long as one comes within 10 seconds, or within one second in an ssh session (SSH_CONNECTION).`,
  flags: { help: HELP },
  examples: [
    { line: 'proxy', meaning: 'Speak the protocol on stdin and stdout, one JSON object per line.' },
    { line: 'proxy < requests.jsonl', meaning: 'Send requests from a file.' },
  ],
} as const satisfies CommandSpec;
