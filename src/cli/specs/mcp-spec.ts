import { type CommandSpec, type FlagSpecs, HELP } from '../command-spec.ts';
import { TARGET_FLAGS } from './environment-specs.ts';

const HTTP = 'HTTP';

/** Flags that say what the tools may do. The configuration of a client repeats them. */
const TOOL_FLAGS = {
  environment: {
    ...TARGET_FLAGS.environment,
    multiple: true,
    description: `${TARGET_FLAGS.environment.description}. May be repeated: the tools then have the argument environment, and the first one is the default`,
  },
  'token-file': TARGET_FLAGS['token-file'],
  root: {
    type: 'string',
    value: 'DIRECTORY',
    multiple: true,
    description:
      'A directory that the tools work in, or ENV:/PATH for one environment. May be repeated; relative paths of the tools begin at the first. Default: the roots that the client names, else the current directory; elsewhere the default directory of the environment',
  },
  sandbox: {
    type: 'string',
    value: 'read-only|workspace-write|off',
    description:
      'What programs and file tools may change: nothing, the roots, or everything. Default: workspace-write',
  },
  'read-only': { type: 'boolean', description: 'Offer only the tools that read. No program can be started.' },
  ask: {
    type: 'boolean',
    description: 'Let the client ask its user before each command and each change of a file.',
  },
} as const satisfies FlagSpecs;

/** Flags of the HTTP listener, with the names that serve has for them. */
export const MCP_LISTENER_FLAGS = {
  'ws-auth': {
    type: 'string',
    value: 'none|capability-token|signed-bearer-token',
    group: HTTP,
    description: 'Which token a client must send, as with serve. Default: none, on loopback only',
  },
  'ws-token-file': {
    type: 'string',
    value: 'FILE',
    group: HTTP,
    description: "File with the token for capability-token; 'exec-server token --out FILE' creates one.",
  },
  'ws-token-sha256': {
    type: 'string',
    value: 'DIGEST',
    group: HTTP,
    description: 'SHA-256 of that token, instead of a file.',
  },
  'ws-shared-secret-file': {
    type: 'string',
    value: 'FILE',
    group: HTTP,
    description: 'File with the shared secret for signed-bearer-token.',
  },
  'ws-issuer': {
    type: 'string',
    value: 'TEXT',
    group: HTTP,
    description: 'The iss claim that signed tokens must have.',
  },
  'ws-audience': {
    type: 'string',
    value: 'TEXT',
    group: HTTP,
    description: 'The aud claim that signed tokens must have.',
  },
  'revoked-tokens': {
    type: 'string',
    value: 'FILE',
    group: HTTP,
    description: 'Ids of revoked signed tokens, one per line. Reloaded on SIGHUP.',
  },
  'allowed-host': {
    type: 'string',
    value: 'NAMES',
    group: HTTP,
    description: 'Further names accepted in Host headers, separated by commas.',
  },
  'insecure-no-auth': {
    type: 'boolean',
    group: HTTP,
    description: 'Listen without tokens on addresses that other machines can reach.',
  },
  'tls-cert': {
    type: 'string',
    value: 'FILE',
    group: HTTP,
    description: 'PEM file with a certificate; the URL is then https://. Reloaded on SIGHUP.',
  },
  'tls-key': { type: 'string', value: 'FILE', group: HTTP, description: 'PEM file with its private key.' },
  'tls-client-ca': {
    type: 'string',
    value: 'FILE',
    group: HTTP,
    description: 'PEM file with the authorities of client certificates, which clients then need.',
  },
} as const satisfies FlagSpecs;

/** Flags of `mcp` without a verb. */
export const MCP_FLAGS = {
  ...TOOL_FLAGS,
  http: {
    type: 'string',
    value: 'HOST:PORT',
    group: HTTP,
    description:
      'Serve streamable HTTP on this address instead of stdio, and print its URL. Port 0 is any free one.',
  },
  ...MCP_LISTENER_FLAGS,
  help: HELP,
} as const satisfies FlagSpecs;

/** Flags of `mcp config`. */
export const MCP_CONFIG_FLAGS = {
  ...TOOL_FLAGS,
  write: {
    type: 'boolean',
    group: 'Configuration of a client',
    description:
      'Add the server to the file of the client, or change the command of its entry. Everything else stays.',
  },
  help: HELP,
} as const satisfies FlagSpecs;

/** The command `mcp`. */
export const MCP = {
  usage: [
    '[-E ENV]… [--root DIR]… [--sandbox MODE] [--read-only] [--ask]',
    '--http HOST:PORT [--ws-auth MODE …] [options]',
    'config claude|cursor|vscode|codex [--write] [options]',
  ],
  description: `\
Serves the Model Context Protocol: an agent such as Claude Code, Cursor, VS Code or codex gets tools that run programs and work with files, \
here or in an environment. It speaks the protocol of 2025-11-25 and the stateless one of 2026-07-28, on stdin and stdout until stdin ends, or \
with --http for several clients until a signal arrives. Programs outlive the client and this command.

config prints what to add to the configuration of a client, with the flags that follow it; --write adds it.`,
  verbs: { config: 'Configure a client' },
  operand: 'claude|cursor|vscode|codex',
  flags: { ...MCP_FLAGS, ...MCP_CONFIG_FLAGS },
  notes: {
    Sandbox: `\
With workspace-write, programs may change the roots and temporary directories, file tools the roots only. .git in a root is read-only, and \
programs have no network. Where the server of an environment \
cannot enforce a sandbox, each call is refused: 'exec-server doctor' there says why, and --sandbox off does without.`,
  },
  examples: [
    { line: 'mcp config claude --write', meaning: 'Let Claude Code use the tools in this directory.' },
    { line: 'mcp -E local -E gpu', meaning: 'Serve tools for this machine and for the environment gpu.' },
    {
      line: 'mcp --http 127.0.0.1:8080 --ws-auth capability-token --ws-token-file token',
      meaning: 'Serve clients with a token over HTTP.',
    },
  ],
} as const satisfies CommandSpec;
