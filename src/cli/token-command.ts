import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { closeSync, fchmodSync, openSync, rmSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { canBeRevoked } from '../listener/revocations.ts';
import { LIMITS_CLAIM, limitsProblem, SCOPES, type Scope, type TokenLimits } from '../server/auth/claims.ts';
import { readSharedSecret } from '../server/auth/secret-file.ts';
import { signToken } from '../server/auth/signed-token.ts';
import { quoteValue } from '../server/config/values.ts';
import { type CommandResult, printed } from './commands.ts';
import { UsageError } from './failures.ts';
import { cannotWriteFile } from './file-failures.ts';
import { type GivenFlags, parseOnlyFlags } from './flags.ts';
import { CAPABILITY_FLAGS, SIGNED_FLAGS } from './specs/token-spec.ts';

/** Creates the token that the arguments ask for. */
export function tokenCommand(argv: readonly string[], nowMs = Date.now()): CommandResult {
  const [first, ...rest] = argv;
  if (first === 'signed') return signedToken(parseOnlyFlags('token', rest, SIGNED_FLAGS), nowMs);
  const flags = parseOnlyFlags('token', first === 'capability' ? rest : argv, SIGNED_FLAGS);
  const other = Object.keys(flags).find((name) => !Object.hasOwn(CAPABILITY_FLAGS, name));
  if (other !== undefined) {
    throw new UsageError(`--${other} is only for signed tokens: write 'token signed --${other} …'`, 'token');
  }
  return capabilityToken(flags);
}

type SignedFlags = GivenFlags<typeof SIGNED_FLAGS>;

function capabilityToken(flags: GivenFlags<typeof CAPABILITY_FLAGS>): CommandResult {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const sha256 = createHash('sha256').update(token).digest('hex');
  return deliver(token, { sha256 }, flags, 'token');
}

function signedToken(flags: SignedFlags, nowMs: number): CommandResult {
  const file = flags['secret-file'];
  if (file === undefined) throw new UsageError('signed needs --secret-file', 'token');
  const nowSeconds = Math.floor(nowMs / 1_000);
  const exp = nowSeconds + seconds(flags['expires-in'] ?? '1h', 'token');
  const jti = flags.id ?? randomUUID();
  if (!canBeRevoked(jti)) {
    throw new UsageError(
      `--id: ${quoteValue(jti)} could not be revoked later; remove #, line breaks and surrounding blanks`,
      'token',
    );
  }
  const limits = limitsOf(flags);
  const claims = {
    jti,
    iat: nowSeconds,
    exp,
    ...(flags.subject !== undefined && { sub: flags.subject }),
    ...(flags.issuer !== undefined && { iss: flags.issuer }),
    ...(flags.audience !== undefined && { aud: flags.audience }),
    ...(Object.keys(limits).length > 0 && { [LIMITS_CLAIM]: limits }),
  };
  const token = signToken(claims, readSharedSecret(file, '--secret-file'));
  const expires = new Date(exp * 1_000).toISOString();
  return deliver(token, { id: jti, expires }, flags, 'token');
}

function limitsOf({ scope, path, environment }: SignedFlags): TokenLimits {
  const limits: TokenLimits = {
    ...(scope !== undefined && { scopes: scope.split(',').map(asScope) }),
    ...(path !== undefined && { path }),
    ...(environment !== undefined && { environment }),
  };
  const problem = limitsProblem(limits);
  if (problem !== null) throw new UsageError(problem, 'token');
  return limits;
}

function asScope(text: string): Scope {
  const scope = SCOPES.find((name) => name === text.trim());
  if (scope !== undefined) return scope;
  throw new UsageError(`--scope: ${quoteValue(text)} is not a scope; allowed: ${SCOPES.join(', ')}`, 'token');
}

/** Parses the lifetime of a token, such as 8h, into seconds. Throws UsageError for the command. */
export function seconds(text: string, command: string): number {
  const [, digits, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const factor = SECONDS_PER_UNIT[unit ?? ''];
  if (factor !== undefined && Number(digits) > 0) return Number(digits) * factor;
  throw new UsageError(
    `--expires-in: ${quoteValue(text)} is not a time; write it like 90s, 15m, 8h or 30d`,
    command,
  );
}

const SECONDS_PER_UNIT: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };
/** As many random bits as the digest that the server keeps. */
const TOKEN_BYTES = 32;
const OWNER_ONLY = 0o600;

/**
 * Prints a token alone on stdout and its details on stderr, or writes the token to the file `out`. With `json` stdout has everything.
 * Null details are shown as `never`. Throws RunError, or UsageError for the command.
 */
export function deliver(
  token: string,
  details: Readonly<Record<string, string | null>>,
  { out, json = false }: { readonly out?: string; readonly json?: boolean },
  command: string,
): CommandResult {
  const output = out === undefined ? { token } : { file: writeToFile(token, out, command) };
  if (json) return printed(`${JSON.stringify({ ...output, ...details }, null, 2)}\n`);
  const shown = 'file' in output ? { ...output, ...details } : details;
  const lines = Object.entries(shown).map(([name, value]) => `${name}: ${value ?? 'never'}\n`);
  return { text: out === undefined ? `${token}\n` : '', details: lines.join(''), exitCode: 0 };
}

/** Writes a token to a new file and returns its path. Throws UsageError for a file that exists, else RunError. */
function writeToFile(token: string, out: string, command: string): string {
  if (out === '') throw new UsageError('--out needs a value', command);
  try {
    const path = resolve(out);
    // An existing file is not replaced: another user may already have it open.
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
    return path;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      throw new UsageError(
        `--out ${out} exists, and a token does not replace a file; choose another name`,
        command,
      );
    }
    throw cannotWriteFile(`--out ${out}`, error);
  }
}
