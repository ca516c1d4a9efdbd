import type { OptionSpecs } from './option-spec.ts';
import { HOUR, MAX_COUNT, WEEK } from './units.ts';

/** The options of who gets in, and how: addresses, tokens, connections. */
export const DOOR_SPECS = {
  listen: {
    group: 'Connections',
    type: 'string',
    placeholder: 'URL',
    allowed: '`ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH`, `stdio` or `off`',
    description:
      'Where to listen: `ws://IP:PORT` or `wss://IP:PORT` (port 0 picks a free one), `unix:///PATH`, `stdio`, or `off`.',
  },
  tlsCert: {
    group: 'Connections',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description:
      'PEM file with the certificate of a `wss://` listener and those that lead to its authority. Read again on SIGHUP.',
  },
  tlsKey: {
    group: 'Connections',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description: 'PEM file with the private key that belongs to the certificate.',
  },
  tlsClientCa: {
    group: 'Connections',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description:
      'PEM file with the authorities whose certificates clients must show; without it clients need none.',
  },
  wsAuth: {
    group: 'Access',
    type: 'enum',
    values: ['none', 'capability-token', 'signed-bearer-token'],
    description:
      'Which token a websocket client must show: none, one fixed token, or one signed with a shared secret (HS256).',
  },
  wsTokenFile: {
    group: 'Access',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description: 'File with the token of `capability-token`; white space around it does not count.',
  },
  wsTokenSha256: {
    group: 'Access',
    type: 'string',
    placeholder: 'DIGEST',
    allowed: '64 hexadecimal digits',
    description: 'SHA-256 of the token of `capability-token`, in place of a file.',
  },
  wsSharedSecretFile: {
    group: 'Access',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description: 'File with the secret of `signed-bearer-token`, at least 32 bytes.',
  },
  wsIssuer: {
    group: 'Access',
    type: 'string',
    placeholder: 'TEXT',
    allowed: 'any text',
    description: 'The `iss` that signed tokens must have; any or none when empty.',
  },
  wsAudience: {
    group: 'Access',
    type: 'string',
    placeholder: 'TEXT',
    allowed: 'any text',
    description: 'The `aud` that signed tokens must have or list; any or none when empty.',
  },
  wsMaxClockSkewSeconds: {
    group: 'Access',
    type: 'integer',
    min: 0,
    max: MAX_COUNT,
    description: 'How far the clock of whoever signs tokens may be off.',
  },
  closeOnTokenExpiry: {
    group: 'Access',
    type: 'boolean',
    description:
      'End a connection when its signed token expires; otherwise a token only counts when a client connects.',
  },
  revokedTokens: {
    group: 'Access',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description:
      'File with the ids (`jti`) of signed tokens that are no longer good, one per line. Read again on SIGHUP.',
  },
  environmentId: {
    group: 'Access',
    type: 'string',
    placeholder: 'NAME',
    allowed: 'any text',
    description: 'The name of this environment; signed tokens that are for another one are refused.',
  },
  insecureNoAuth: {
    group: 'Access',
    type: 'boolean',
    description:
      'Listen without tokens on addresses that other machines reach: whoever reaches the port can run programs.',
  },
  allowedHost: {
    group: 'Access',
    type: 'string',
    placeholder: 'NAMES',
    allowed: 'names or addresses without ports, separated by commas',
    description: 'Names in Host headers that are answered beside loopback and the address listened on.',
  },
  concurrentRequests: {
    group: 'Connections',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Requests of one connection that may run at once; control requests and long polls do not count.',
  },
  maxConnections: {
    group: 'Connections',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Connections accepted at once; further ones are refused with 503. It is less where the system allows few open files.',
  },
  maxConnectionsPerAddress: {
    group: 'Connections',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Connections accepted at once from one network address, or one IPv6 /64; those from this machine do not count.',
  },
  handshakeTimeoutMs: {
    group: 'Connections',
    type: 'duration',
    min: 10,
    max: HOUR,
    description: 'How long a connection may take to become a websocket, TLS and HTTP headers included.',
  },
  initializeTimeoutMs: {
    group: 'Connections',
    type: 'duration',
    min: 0,
    max: WEEK,
    description:
      'How long a websocket may take to send `initialize`; after that it is closed with 1008. 0 waits for ever.',
  },
} satisfies Partial<OptionSpecs>;
