import { type CommandSpec, type FlagSpecs, HELP } from '../command-spec.ts';

/** Flags of a relay that serves. */
export const RELAY_SERVE_FLAGS = {
  'secret-file': {
    type: 'string',
    value: 'FILE',
    description:
      "The secret that seals tokens and URLs, at least 32 bytes; 'exec-server token --out FILE' creates one. All nodes of a relay use the same secret.",
  },
  listen: {
    type: 'string',
    value: 'URL',
    description:
      'http://IP:PORT or https://IP:PORT. Default: port 0 of 127.0.0.1, with https if there is a --tls-cert',
  },
  'tls-cert': {
    type: 'string',
    value: 'FILE',
    description: 'PEM file with the certificate of an https:// listener.',
  },
  'tls-key': { type: 'string', value: 'FILE', description: 'PEM file with its private key.' },
  'insecure-no-tls': {
    type: 'boolean',
    description: 'Let other machines connect without TLS, because a proxy in front of the relay provides it.',
  },
  'public-url': {
    type: 'string',
    value: 'URL',
    description: 'The URL at which clients reach the relay, if it differs from --listen.',
  },
  'node-url': {
    type: 'string',
    value: 'URL',
    description: 'The URL at which clients reach this node of several. Default: the public URL',
  },
  store: {
    type: 'string',
    value: 'STORE',
    description:
      'Where registrations are stored: memory; file:///PATH, which survives a restart; or redis://HOST:PORT, which several nodes share. Default: $EXEC_SERVER_RELAY_STORE or memory',
  },
  'revoked-file': { type: 'string', value: 'FILE', description: 'Ids of revoked tokens, one per line.' },
  'audit-log': {
    type: 'string',
    value: 'FILE',
    description: "Record calls and connections; see 'exec-server audit'.",
  },
  metrics: { type: 'boolean', description: 'Serve /metrics to tokens with the role metrics.' },
  'metrics-listen': {
    type: 'string',
    value: 'IP:PORT',
    description: 'Serve /metrics, /healthz and /readyz on this address too, over plain HTTP, without tokens.',
  },
  'metrics-token-file': {
    type: 'string',
    value: 'FILE',
    description: 'With --metrics-listen: file with the token that /metrics needs there.',
  },
  'max-connections': { type: 'string', value: 'N', description: 'Concurrent websockets. Default: 16384' },
  'log-level': {
    type: 'string',
    value: 'debug|info|warn|error',
    description: 'Lowest severity written to stderr. Default: info',
  },
  help: HELP,
} as const satisfies FlagSpecs;

/** Flags of `relay token`. */
export const RELAY_TOKEN_FLAGS = {
  'secret-file': RELAY_SERVE_FLAGS['secret-file'],
  role: {
    type: 'string',
    value: 'executor|harness|metrics',
    group: 'Tokens',
    description: 'What the token is for. A harness is a client.',
  },
  environment: {
    type: 'string',
    value: 'ID',
    group: 'Tokens',
    description: 'The environment of an executor or a harness: up to 64 letters, digits, _ and -.',
  },
  'expires-in': {
    type: 'string',
    value: 'TIME',
    group: 'Tokens',
    description: 'Lifetime of the token: 90s, 15m, 8h, 30d. Default: no expiry',
  },
  id: {
    type: 'string',
    value: 'TEXT',
    group: 'Tokens',
    description: 'The id of the token in logs. Default: random',
  },
  out: {
    type: 'string',
    value: 'FILE',
    group: 'Tokens',
    description: 'Write the token to a new file that only you can read, and do not print it.',
  },
  json: {
    type: 'boolean',
    group: 'Tokens',
    description:
      'Print the token and its details as JSON on stdout. Default: the token on stdout, its details on stderr',
  },
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `relay`. */
export const RELAY = {
  usage: ['--secret-file FILE [options]', 'token --secret-file FILE --role ROLE [options]'],
  description: `\
Serves a registry and a relay. Executors behind firewalls connect to it (exec-server --remote URL), and clients, called harnesses, reach \
them through it. The relay forwards encrypted frames and cannot read them. Prints its URL on stdout once it is ready.

SIGTERM closes all connections and ends the relay. SIGHUP reloads certificates and revoked tokens, closes connections whose token is \
revoked, and reopens the audit log.`,
  verbs: { token: 'Create a token of the relay' },
  flags: { ...RELAY_SERVE_FLAGS, ...RELAY_TOKEN_FLAGS },
  examples: [
    {
      line: 'relay --secret-file secret --listen http://127.0.0.1:8080',
      meaning: 'Serve a relay on this machine.',
    },
    {
      line: 'relay token --secret-file secret --role executor --environment build-7 --out key',
      meaning: 'Create the EXEC_SERVER_API_KEY of an executor.',
    },
  ],
} as const satisfies CommandSpec;
