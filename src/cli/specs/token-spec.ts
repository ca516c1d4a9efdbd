import { type CommandSpec, type FlagSpecs, HELP } from '../command-spec.ts';

/** Flags for the delivery of a token. */
export const CAPABILITY_FLAGS = {
  out: {
    type: 'string',
    value: 'FILE',
    description: 'Write the token to a new file that only you can read, and do not print it.',
  },
  json: { type: 'boolean', description: 'Print the token and its details as JSON on stdout.' },
  help: HELP,
} as const satisfies FlagSpecs;

/** Flags of signed tokens. */
export const SIGNED_FLAGS = {
  ...CAPABILITY_FLAGS,
  'secret-file': {
    type: 'string',
    value: 'FILE',
    group: 'Signed tokens',
    description: "The server's --ws-shared-secret-file.",
  },
  'expires-in': {
    type: 'string',
    value: 'TIME',
    group: 'Signed tokens',
    description: 'Lifetime of the token: 90s, 15m, 8h, 30d. Default: 1h',
  },
  scope: {
    type: 'string',
    value: 'LIST',
    group: 'Signed tokens',
    description:
      'What it allows, separated by commas: exec (programs), files (read and write) or read-only (files), net (http, tcp), observe (view the processes of all owners), metrics (/metrics). Default: everything but observe',
  },
  subject: {
    type: 'string',
    value: 'TEXT',
    group: 'Signed tokens',
    description:
      'The sub claim: the owner of what the client starts. Tokens with the same subject share their processes. Default: none, each token is an owner of its own',
  },
  path: {
    type: 'string',
    value: 'DIRECTORY',
    group: 'Signed tokens',
    description: 'Only files below this directory, for files or read-only.',
  },
  environment: {
    type: 'string',
    value: 'NAME',
    group: 'Signed tokens',
    description: 'Only for the server with this --environment-id.',
  },
  issuer: {
    type: 'string',
    value: 'TEXT',
    group: 'Signed tokens',
    description: 'The iss claim that the server requires with --ws-issuer.',
  },
  audience: {
    type: 'string',
    value: 'TEXT',
    group: 'Signed tokens',
    description: 'The aud claim that it requires with --ws-audience.',
  },
  id: {
    type: 'string',
    value: 'TEXT',
    group: 'Signed tokens',
    description: "The id of the token in logs and in the server's --revoked-tokens. Default: random",
  },
} as const satisfies FlagSpecs;

/** The command `token`. */
export const TOKEN = {
  usage: ['[capability] [--out FILE] [--json]', 'signed --secret-file FILE [options]'],
  description: `\
Prints a token on stdout and its details on stderr: TOKEN=$(exec-server token).

Creates tokens for clients of a server that requires them (--ws-auth). A capability token is random and allows everything; give the \
server the file or the digest. A signed token needs the server's shared secret; any capability token can serve as that secret.`,
  verbs: { capability: 'A random token', signed: 'A token with limits' },
  flags: SIGNED_FLAGS,
  notes: {
    'Exit codes': `\
1  a file cannot be read or written
2  bad usage, which includes an --out that exists`,
  },
  examples: [
    {
      line: 'token --out token',
      meaning: 'Create a token for --ws-auth capability-token --ws-token-file token.',
    },
    {
      line: 'token signed --secret-file secret --scope read-only --expires-in 15m',
      meaning: 'A token that reads files for 15 minutes.',
    },
  ],
} as const satisfies CommandSpec;
