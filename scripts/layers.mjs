// The folders of src/, what each is for, and what it may import. check-layers.mjs enforces this table; generate-layers.mjs writes it into
// ARCHITECTURE.md.

/** The folder of helpers that every folder may import. It imports nothing. */
export const BASE = 'base';

/**
 * `imports` lists what a folder may import besides base: other folders, `types:x` for type-only imports of x, `*` for everything but cli.
 * Lower layers come first.
 */
export const LAYERS = {
  [BASE]: { subject: 'async and byte helpers', imports: [] },
  protocol: {
    subject:
      'schemas, method registry, error codes, message envelope; source of the JSON Schema and docs/protocol.md',
    imports: [],
  },
  observability: { subject: 'logs, metrics, traces, redaction', imports: [] },
  native: { subject: 'calls to the C library', imports: [] },
  transport: {
    subject: 'carries messages: websocket, stdio lines, in-memory pair',
    imports: ['protocol', 'observability'],
  },
  rpc: {
    subject: 'matches requests and answers: connection, dispatcher, outbox; large messages',
    imports: ['transport', 'protocol', 'observability'],
  },
  process: {
    subject: 'starts, reads, signals and ends programs; output log, stdin, process tag, resource limits',
    imports: ['native', 'types:protocol'],
  },
  recording: {
    subject: 'recordings of programs: asciicast files, masking of secrets, retention',
    imports: ['observability', 'types:process'],
  },
  files: {
    subject: 'file operations, path URIs, handles, watching, searching, capability discovery',
    imports: ['native', 'types:protocol'],
  },
  network: {
    subject: 'HTTP requests, and the proxy of a program with credential masking',
    imports: ['types:protocol'],
  },
  sandbox: {
    subject: 'confines programs and file operations: policies, mount plans, bwrap, seccomp, file helpers',
    imports: ['process', 'files', 'types:protocol'],
  },
  audit: {
    subject: 'the audit log: chained records, rotation, verification',
    imports: ['protocol', 'observability'],
  },
  listener: {
    subject: 'HTTP listeners: TLS, unix sockets, connection limits, delays for wrong tokens',
    imports: ['transport', 'observability'],
  },
  console: {
    subject: 'the web console: its page, sign-in codes, sessions of browsers, tickets of websockets',
    imports: ['listener', 'transport', 'observability'],
  },
  server: {
    subject: 'the exec-server: configuration, authentication, sessions, one handler per method',
    imports: [
      'listener',
      'console',
      'audit',
      'protocol',
      'transport',
      'rpc',
      'native',
      'process',
      'recording',
      'files',
      'sandbox',
      'network',
      'observability',
    ],
  },
  client: {
    subject: 'the client library: connection, recovery, remote processes and files; also runs in browsers',
    imports: ['rpc', 'transport', 'protocol', 'observability'],
  },
  environment: {
    subject: 'local and remote machines behind one interface, their configuration, MCP servers',
    imports: ['client', 'relay', 'server', 'process', 'files', 'observability'],
  },
  agent: {
    subject: 'the tools of a model: exec_command and write_stdin; the whole set of tools with adapters',
    imports: ['client', 'environment', 'files', 'observability'],
  },
  relay: {
    subject:
      'reaching a server behind a firewall: Noise channel, executor, harness, forwarder and the relay itself',
    imports: ['listener', 'audit', 'transport', 'protocol', 'server', 'client', 'observability'],
  },
  mcp: {
    subject: 'the MCP server: the tools of a model over stdio and HTTP',
    imports: ['agent', 'listener', 'server', 'observability'],
  },
  testing: { subject: 'the published test kit', imports: ['*'] },
  cli: { subject: 'the command line: arguments, signals, exit codes', imports: ['*'] },
  'index.ts': { subject: 'the entry of the package', imports: ['*'] },
};
