import { FILE, HOUR, MAX_COUNT, type Setting, WEEK } from './setting.ts';

/** Settings of the listener: addresses, TLS, tokens and connections. */
export const LISTENER_SETTINGS = {
  listen: {
    group: 'Connections',
    type: 'string',
    default: 'ws://127.0.0.1:0',
    placeholder: 'URL',
    allowed: '`ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH`, `stdio` or `off`',
    description:
      'Where to listen: `ws://IP:PORT` or `wss://IP:PORT` (port 0 picks a free one), `unix:///PATH`, `stdio`, or `off`. The program also takes a port alone, as text.',
  },
  tlsCert: {
    ...FILE,
    group: 'Connections',
    description:
      'PEM file with the certificate of a `wss://` listener, followed by its intermediate certificates. Reloaded on SIGHUP.',
  },
  tlsKey: {
    ...FILE,
    group: 'Connections',
    description: 'PEM file with the private key of the certificate.',
  },
  tlsClientCa: {
    ...FILE,
    group: 'Connections',
    description:
      'PEM file with the certificate authorities for client certificates. When set, clients must present a certificate.',
  },
  wsAuth: {
    group: 'Access',
    type: 'enum',
    default: 'none',
    values: ['none', 'capability-token', 'signed-bearer-token'],
    description:
      'Which token a websocket client must send: none, one fixed token, or a token signed with a shared secret (HS256).',
  },
  wsTokenFile: {
    ...FILE,
    group: 'Access',
    description: 'File with the token for `capability-token`. Surrounding white space is ignored.',
  },
  wsTokenSha256: {
    group: 'Access',
    type: 'string',
    default: '',
    placeholder: 'DIGEST',
    allowed: '64 hexadecimal digits',
    description: 'SHA-256 of the token for `capability-token`, instead of a file.',
  },
  wsSharedSecretFile: {
    ...FILE,
    group: 'Access',
    description: 'File with the shared secret for `signed-bearer-token`, at least 32 bytes.',
  },
  wsIssuer: {
    group: 'Access',
    type: 'string',
    default: '',
    placeholder: 'TEXT',
    allowed: 'any text',
    description: 'The `iss` claim that signed tokens must have. Not checked when empty.',
  },
  wsAudience: {
    group: 'Access',
    type: 'string',
    default: '',
    placeholder: 'TEXT',
    allowed: 'any text',
    description: 'The `aud` claim that signed tokens must have or list. Not checked when empty.',
  },
  wsMaxClockSkewSeconds: {
    group: 'Access',
    type: 'integer',
    default: 30,
    min: 0,
    max: MAX_COUNT,
    description: "How far the token signer's clock may differ from the server's.",
  },
  closeOnTokenExpiry: {
    group: 'Access',
    type: 'boolean',
    default: false,
    description:
      'Close a connection when its signed token expires. By default the token is checked only when a client connects.',
  },
  revokedTokens: {
    ...FILE,
    group: 'Access',
    description: 'File with the ids (`jti`) of revoked signed tokens, one per line. Reloaded on SIGHUP.',
  },
  environmentId: {
    group: 'Access',
    type: 'string',
    default: '',
    placeholder: 'NAME',
    allowed: 'any text',
    description: 'The name of this environment. Signed tokens issued for another environment are refused.',
  },
  insecureNoAuth: {
    group: 'Access',
    type: 'boolean',
    default: false,
    description:
      'Listen without tokens on addresses that other machines can reach. Anyone who reaches the port can run programs.',
  },
  allowedHost: {
    group: 'Access',
    type: 'string',
    default: '',
    placeholder: 'NAMES',
    allowed: 'names or addresses without ports, separated by commas',
    description: 'Further names accepted in Host headers, besides loopback names and the listen address.',
  },
  console: {
    group: 'Access',
    type: 'boolean',
    default: false,
    description:
      'Serve the web console at /console of a `ws://` or `wss://` listener. Browsers sign in with a link that can be used once.',
  },
  concurrentRequests: {
    group: 'Connections',
    type: 'integer',
    default: 128,
    min: 1,
    max: MAX_COUNT,
    description: 'Concurrent requests per connection. Control requests and long polls do not count.',
  },
  maxConnections: {
    group: 'Connections',
    type: 'integer',
    default: 1024,
    min: 1,
    max: MAX_COUNT,
    description: 'Concurrent connections; further ones get 503. Lowered when the limit on open files is low.',
  },
  maxConnectionsPerAddress: {
    group: 'Connections',
    type: 'integer',
    default: 256,
    min: 1,
    max: MAX_COUNT,
    description:
      'Concurrent connections from one network address, or one IPv6 /64. Connections from this machine do not count.',
  },
  handshakeTimeoutMs: {
    group: 'Connections',
    type: 'duration',
    default: 10_000,
    min: 10,
    max: HOUR,
    description: 'Time allowed for TLS, HTTP headers and the websocket upgrade.',
  },
  initializeTimeoutMs: {
    group: 'Connections',
    type: 'duration',
    default: 30_000,
    min: 0,
    max: WEEK,
    description:
      'Time allowed until a websocket client sends `initialize`; then the connection closes with 1008. 0 disables the limit.',
  },
} as const satisfies Record<string, Setting>;
