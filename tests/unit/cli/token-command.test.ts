import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { RunError, UsageError } from '../../../src/cli/failures.ts';
import { tokenCommand } from '../../../src/cli/token-command.ts';
import { signedTokenVerifier } from '../../../src/server/auth/signed-token.ts';

const folder = mkdtempSync(join(tmpdir(), 'token-'));
afterAll(() => rmSync(folder, { recursive: true }));

const SECRET = 'm'.repeat(40);
const secretFile = join(folder, 'secret');
writeFileSync(secretFile, `${SECRET}\n`);
const NOW_MS = 1_800_000_000_000;

/** What `--json` prints. */
function fields(argv: readonly string[], nowMs?: number): Record<string, string> {
  return JSON.parse(tokenCommand([...argv, '--json'], nowMs).text);
}

const signed = (...args: string[]) => fields(['signed', '--secret-file', secretFile, ...args], NOW_MS);

function verify(token: string, atMs = NOW_MS) {
  const rules = { secret: SECRET, issuer: '', audience: '', maxClockSkewSeconds: 0 };
  return signedTokenVerifier(rules, () => atMs)(token);
}

test.each([[[]], [['capability']]])('%j creates a random token and its digest', (argv) => {
  const { token, sha256 } = fields(argv);
  expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/);
  expect(createHash('sha256').update(token!).digest('hex')).toBe(sha256);
  expect(fields(argv).token).not.toBe(token);
});

test('prints the token alone on stdout and its details on stderr', () => {
  const capability = tokenCommand([]);
  const token = capability.text.slice(0, -1);
  const sha256 = createHash('sha256').update(token).digest('hex');
  expect(capability).toEqual({ text: `${token}\n`, details: `sha256: ${sha256}\n`, exitCode: 0 });
  const signedToken = tokenCommand(['signed', '--secret-file', secretFile, '--id', 'robot'], NOW_MS);
  expect(verify(signedToken.text.slice(0, -1))).toMatchObject({ tokenId: 'robot' });
  expect(signedToken.details).toBe(`id: robot\nexpires: ${new Date(NOW_MS + 3_600_000).toISOString()}\n`);
});

test('prints nothing on stdout when the token is in a file', () => {
  const out = join(folder, 'quiet');
  const { text, details } = tokenCommand(['--out', out]);
  expect([text, details]).toEqual(['', expect.stringMatching(`^file: ${out}\nsha256: [0-9a-f]{64}\n$`)]);
});

test('writes the token to a file that only the owner can read, and does not print it', () => {
  const out = join(folder, 'out');
  const mask = process.umask(0);
  const { token, file, sha256 } = fields(['--out', out]);
  process.umask(mask);
  expect([token, file]).toEqual([undefined, out]);
  expect(statSync(out).mode & 0o777).toBe(0o600);
  const written = readFileSync(out, 'utf8').trim();
  expect(createHash('sha256').update(written).digest('hex')).toBe(sha256);
  expect(() => tokenCommand(['--out', out])).toThrow(
    new UsageError(`--out ${out} exists, and a token does not replace a file; choose another name`, 'token'),
  );
  expect(readFileSync(out, 'utf8').trim()).toBe(written);
  expect(() => tokenCommand(['--out', '/no/such/file'])).toThrow(
    new RunError(
      'cannot write --out /no/such/file: no such file or directory; create the directory, or choose another path',
      { kind: 'storage' },
    ),
  );
});

test('a signed token is valid for an hour and unlimited by default', () => {
  const { token, id, expires } = signed();
  expect(verify(token!)).toMatchObject({ tokenId: id, limits: {} });
  expect(expires).toBe(new Date(NOW_MS + 3_600_000).toISOString());
  expect(verify(token!, NOW_MS + 3_600_000)).toHaveProperty('tokenId');
  expect(verify(token!, NOW_MS + 3_601_000)).toEqual({ problem: 'expired websocket jwt' });
});

test('a signed token has the claims that the flags ask for', () => {
  const { token, id } = signed(
    ...['--scope', 'files', '--path', '/srv/data', '--environment', 'build', '--id', 'robot'],
    ...['--subject', 'ana', '--issuer', 'me', '--audience', 'you', '--expires-in', '30d'],
  );
  expect(id).toBe('robot');
  expect(verify(token!)).toMatchObject({
    tokenId: 'robot',
    owner: 'ana',
    limits: { scopes: ['files'], path: '/srv/data', environment: 'build' },
    expiresAtMs: NOW_MS + 30 * 86_400_000,
  });
  const claims = JSON.parse(Buffer.from(token!.split('.')[1]!, 'base64url').toString());
  expect(claims).toMatchObject({ iss: 'me', aud: 'you', iat: NOW_MS / 1_000 });
});

test.each<[string[], RegExp]>([
  [['signed'], /needs --secret-file/],
  [['signed', '--secret-file', secretFile, '--scope', 'root'], /'root' is not a scope; allowed: exec, files/],
  [['signed', '--secret-file', secretFile, '--scope', 'files,read-only'], /read-only stands alone/],
  [['signed', '--secret-file', secretFile, '--path', '/srv'], /a path can be kept for files only/],
  [['signed', '--secret-file', secretFile, '--scope', 'files', '--path', 'srv'], /not absolute/],
  [['signed', '--secret-file', secretFile, '--expires-in', '1w'], /'1w' is not a time/],
  [['signed', '--secret-file', secretFile, '--expires-in', '0s'], /'0s' is not a time/],
  [['signed', '--secret-file', secretFile, '--id', 'a#b'], /could not be revoked later/],
  [['signed', '--secret-file', secretFile, '--id', ''], /could not be revoked later/],
  [['--scope', 'exec'], /--scope is only for signed tokens: write 'token signed --scope …'/],
  [['capability', '--expires-in', '8h'], /--expires-in is only for signed tokens/],
  [['mint'], /unexpected argument 'mint'/],
  [['--out'], /--out needs a value/],
  [['--out', ''], /--out needs a value/],
  [['--out', 'a', '--out', 'b'], /--out is given more than once/],
])('rejects %j', (argv, message) => {
  expect(() => tokenCommand(argv)).toThrow(UsageError);
  expect(() => tokenCommand(argv)).toThrow(expect.objectContaining({ command: 'token' }));
  expect(() => tokenCommand(argv)).toThrow(message);
});

test('rejects a secret that the server would reject', () => {
  const short = join(folder, 'short');
  writeFileSync(short, 'short');
  expect(() => tokenCommand(['signed', '--secret-file', short])).toThrow(
    `--secret-file ${short} must be at least 32 bytes`,
  );
  expect(() => tokenCommand(['signed', '--secret-file', join(folder, 'no')])).toThrow('No such file');
});
