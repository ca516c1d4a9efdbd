import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { closeSync, fchmodSync, openSync, rmSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { canBeRevoked } from '../listener/revocations.ts';
import { LIMITS_CLAIM, limitsProblem, SCOPES, type Scope, type TokenLimits } from '../server/auth/claims.ts';
import { readSharedSecret } from '../server/auth/secret-file.ts';
import { signToken } from '../server/auth/signed-token.ts';
import { quoteValue } from '../server/config/values.ts';
import { RunError, UsageError } from './failures.ts';
import { parseToolFlags } from './tool-flags.ts';

/** Makes the token that the arguments behind `token` ask for; returns what to print. */
export function tokenCommand(argv: readonly string[], nowMs = Date.now()): string {
  if (argv.includes('--help') || argv.includes('-h')) return TOKEN_HELP;
  const [first, ...rest] = argv;
  if (first === 'signed') return signedToken(parse(rest, SIGNED_FLAGS), nowMs);
  return capabilityToken(parse(first === 'capability' ? rest : argv, CAPABILITY_FLAGS));
}

export const TOKEN_HELP = `\
Usage: exec-server token [capability] [--out FILE]
       exec-server token signed --secret-file FILE [options]

Makes tokens for clients of a server that asks for them (--ws-auth). A
capability token is random and allows everything; give the server the file or
the digest. A signed one needs the server's shared secret, which is any
capability token.

Options:
  --out FILE          Write the token to a new file that only you can read, and
                      do not print it.
  --secret-file FILE  The secret that the server has as --ws-shared-secret-file.
  --expires-in TIME   How long the token is good: 90s, 15m, 8h, 30d. Default: 1h
  --scope LIST        What it allows, separated by commas: exec (programs),
                      files (read and write) or read-only (files), net (http),
                      metrics (/metrics). Default: everything
  --path DIRECTORY    Only files below this directory, for files or read-only.
  --environment NAME  Only at the server that has this --environment-id.
  --issuer TEXT       The iss that the server asks for with --ws-issuer.
  --audience TEXT     The aud that the server asks for with --ws-audience.
  --id TEXT           The name by which logs know the token, and by which a
                      server that has it in its --revoked-tokens refuses it.
                      Default: random
`;

type Flags = Readonly<Record<string, string | undefined>>;

const CAPABILITY_FLAGS = ['out'];
const SIGNED_FLAGS = [
  'out',
  'secret-file',
  'expires-in',
  'scope',
  'path',
  'environment',
  'issuer',
  'audience',
  'id',
];

function parse(args: readonly string[], names: readonly string[]): Flags {
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]));
  return parseToolFlags('token', args, options);
}

function capabilityToken({ out }: Flags): string {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const digest = createHash('sha256').update(token).digest('hex');
  return `${deliver(token, out)}sha256: ${digest}\n`;
}

function signedToken(flags: Flags, nowMs: number): string {
  const file = flags['secret-file'];
  if (file === undefined) throw new UsageError('token signed needs --secret-file');
  const nowSeconds = Math.floor(nowMs / 1_000);
  const exp = nowSeconds + seconds(flags['expires-in'] ?? '1h');
  const jti = flags.id ?? randomUUID();
  if (!canBeRevoked(jti)) {
    throw new UsageError(
      `--id: ${quoteValue(jti)} could not be revoked; leave out # and line ends, and blanks at either end`,
    );
  }
  const limits = limitsOf(flags);
  const claims = {
    jti,
    iat: nowSeconds,
    exp,
    ...(flags.issuer !== undefined && { iss: flags.issuer }),
    ...(flags.audience !== undefined && { aud: flags.audience }),
    ...(Object.keys(limits).length > 0 && { [LIMITS_CLAIM]: limits }),
  };
  const token = signToken(claims, readSharedSecret(file));
  const expires = new Date(exp * 1_000).toISOString();
  return `${deliver(token, flags.out)}id: ${jti}\nexpires: ${expires}\n`;
}

function limitsOf({ scope, path, environment }: Flags): TokenLimits {
  const limits: TokenLimits = {
    ...(scope !== undefined && { scopes: scope.split(',').map(asScope) }),
    ...(path !== undefined && { path }),
    ...(environment !== undefined && { environment }),
  };
  const problem = limitsProblem(limits);
  if (problem !== null) throw new UsageError(`token: ${problem}`);
  return limits;
}

function asScope(text: string): Scope {
  const scope = SCOPES.find((name) => name === text.trim());
  if (scope !== undefined) return scope;
  throw new UsageError(`token: ${quoteValue(text)} is not a scope; allowed: ${SCOPES.join(', ')}`);
}

/** Reads a time like 8h, in seconds. Throws UsageError. */
export function seconds(text: string): number {
  const [, digits, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const factor = SECONDS_PER_UNIT[unit ?? ''];
  if (factor !== undefined && Number(digits) > 0) return Number(digits) * factor;
  throw new UsageError(`--expires-in: ${quoteValue(text)} is not a time; write it like 90s, 15m, 8h or 30d`);
}

const SECONDS_PER_UNIT: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };
/** As many random bits as the digest has that the server keeps. */
const TOKEN_BYTES = 32;
const OWNER_ONLY = 0o600;

/** Writes the token to the file, or leaves it to be printed. Throws RunError. */
export function deliver(token: string, out: string | undefined): string {
  if (out === undefined) return `token: ${token}\n`;
  if (out === '') throw new UsageError('--out needs a value');
  try {
    const path = resolve(out);
    // A file that exists is not replaced: somebody else may have it open already.
    const descriptor = openSync(path, 'wx', OWNER_ONLY);
    try {
      fchmodSync(descriptor, OWNER_ONLY);
      writeSync(descriptor, `${token}\n`);
    } catch (error) {
      rmSync(path, { force: true });
      throw error;
    } finally {
      closeSync(descriptor);
    }
    return `file: ${path}\n`;
  } catch (error) {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST';
    throw new RunError(
      `cannot write --out ${out}: ${isThere ? 'it exists (choose another name)' : (error as Error).message}`,
    );
  }
}
