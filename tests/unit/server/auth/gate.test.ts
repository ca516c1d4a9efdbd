import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createGate } from '../../../../src/server/auth/gate.ts';
import { signToken } from '../../../../src/server/auth/signed-token.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../../../src/server/config/config.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'gate-')));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const gateOf = (config: Partial<ExecServerConfig>, revoked: readonly string[] = []) =>
  createGate({ ...DEFAULT_CONFIG, ...config }, new Set(revoked));
const capability = (config: Partial<ExecServerConfig>) => gateOf({ wsAuth: 'capability-token', ...config });

const SECRET = 'k'.repeat(32);
const signed = (config: Partial<ExecServerConfig> = {}, revoked: readonly string[] = []) =>
  gateOf(
    { wsAuth: 'signed-bearer-token', wsSharedSecretFile: file('secret', `${SECRET}\n`), ...config },
    revoked,
  );
const bearer = (limits: unknown) =>
  `Bearer ${signToken({ exp: Math.floor(Date.now() / 1_000) + 60, exec_server: limits }, SECRET)}`;

const digestOf = (text: string) => createHash('sha256').update(text).digest('hex').toUpperCase();

test.each([
  ['Bearer sesame', null],
  ['bearer   sesame', null],
  ['BEARER sesame  ', null],
  [undefined, 'missing websocket bearer token'],
  ['Basic sesame', 'invalid authorization header'],
  ['sesame', 'invalid authorization header'],
  ['Bearer', 'invalid authorization header'],
  ['Bearer ', 'invalid authorization header'],
  ['Bearersesame', 'invalid authorization header'],
  ['Bearer sesam\u00e9', 'invalid authorization header'],
  ['Bearer Sesame', 'invalid websocket bearer token'],
  ['Bearer sesame x', 'invalid websocket bearer token'],
])('answers the header %j with the refusal %j', async (header, refusal) => {
  for (const gate of [
    capability({ wsTokenSha256: digestOf('sesame') }),
    capability({ wsTokenFile: file('token', ' sesame\n') }),
  ]) {
    const admission = await gate(header, '192.0.2.1');
    if (refusal === null) {
      const access = { exec: true, files: 'write', below: null };
      const principal = { kind: 'capabilityToken', address: '192.0.2.1', access, expiresAtMs: null };
      expect(admission).toMatchObject({ principal });
    } else {
      expect(admission).toMatchObject({ refusal });
    }
  }
});

test('delays refusals of wrong tokens longer each time, up to a limit; does not delay others', async () => {
  const gate = capability({ wsTokenSha256: digestOf('sesame') });
  const delays: number[] = [];
  for (let attempt = 0; attempt < 12; attempt++) {
    const admission = await gate('Bearer guess', '192.0.2.1');
    delays.push('delayMs' in admission ? admission.delayMs : -1);
  }
  expect(delays.slice(0, 4)).toEqual([50, 100, 200, 400]);
  expect(delays.slice(-2)).toEqual([5_000, 5_000]);
  expect(await gate('Bearer guess', '192.0.2.2')).toMatchObject({ delayMs: 50 });
  expect(await gate(undefined, '192.0.2.1')).toMatchObject({ delayMs: 0 });
  expect(await gate('Bearer sesame', '192.0.2.1')).toHaveProperty('principal');
});

test.each<[string, Partial<ExecServerConfig>, string]>([
  [
    'a file that is not there',
    { wsTokenFile: join(folder, 'missing') },
    `failed to read websocket auth secret ${join(folder, 'missing')}: No such file or directory (os error 2)`,
  ],
  ['a directory', { wsTokenFile: folder }, `failed to read websocket auth secret ${folder}: Is a directory`],
  [
    'a file of blanks',
    { wsTokenFile: file('blank', ' \n') },
    `websocket auth secret ${join(folder, 'blank')} must not be empty`,
  ],
  ['an endless file', { wsTokenFile: '/dev/zero' }, 'too large to be a secret'],
  ['a file that is not text', { wsTokenFile: file('binary', Uint8Array.of(255)) }, 'valid UTF-8'],
])('refuses %s as a token file', (_, config, message) => {
  expect(() => capability(config)).toThrow(message);
});

test('requires at least 32 bytes for a shared secret', () => {
  const wsSharedSecretFile = file('short', 'x'.repeat(31));
  expect(() => signed({ wsSharedSecretFile })).toThrow(
    `signed websocket bearer secret ${wsSharedSecretFile} must be at least 32 bytes`,
  );
});

test.each<[unknown, object]>([
  [{ scopes: ['exec'] }, { exec: true, files: 'none', below: null }],
  [{ scopes: ['files'] }, { exec: false, files: 'write', below: null }],
  [{ scopes: ['exec', 'files'] }, { exec: true, files: 'write', below: null }],
  [{ scopes: ['read-only'] }, { exec: false, files: 'read', net: false, below: null }],
  [{ scopes: ['net'] }, { exec: false, files: 'none', net: true, metrics: false, below: null }],
  [{ scopes: ['metrics'] }, { exec: false, files: 'none', net: false, metrics: true, below: null }],
  [{}, { exec: true, files: 'write', net: true, metrics: true, below: null }],
  [
    { scopes: ['read-only'], path: folder },
    { exec: false, files: 'read', below: folder },
  ],
  [undefined, { exec: true, files: 'write', net: true, below: null }],
])('a token with the limits %j has the access %j', async (limits, access) => {
  expect(await signed()(bearer(limits), null)).toMatchObject({ principal: { kind: 'signedToken', access } });
});

test.each([
  ['that does not exist', () => join(folder, 'missing')],
  ['that is a file', () => file('plain', '')],
  [
    'behind a link',
    () => {
      mkdirSync(join(folder, 'real/inner'), { recursive: true });
      symlinkSync('real', join(folder, 'link'));
      return join(folder, 'link/inner');
    },
  ],
])('refuses a token for a directory %s', async (_, path) => {
  expect(await signed()(bearer({ scopes: ['files'], path: path() }), null)).toMatchObject({
    refusal: 'websocket jwt path is not a directory here, or leads through a link',
  });
});

test('accepts a token for an environment only there', async () => {
  const token = bearer({ environment: 'build' });
  expect(await signed({ environmentId: 'build' })(token, null)).toHaveProperty('principal');
  for (const environmentId of ['', 'test']) {
    expect(await signed({ environmentId })(token, null)).toMatchObject({
      refusal: 'websocket jwt environment mismatch',
    });
  }
});

test('refuses a revoked token without delay and reports its id', async () => {
  const long = 'x'.repeat(100);
  const gate = signed({}, ['lost', long, '']);
  const show = (claims: object) =>
    gate(`Bearer ${signToken({ exp: Math.floor(Date.now() / 1_000) + 60, ...claims }, SECRET)}`, null);
  const refused = { refusal: 'revoked websocket jwt', delayMs: 0 };
  expect(await show({ jti: 'lost' })).toEqual({ ...refused, tokenId: 'lost' });
  expect(await show({ jti: long })).toMatchObject(refused);
  expect(await show({ jti: 'other' })).toMatchObject({ principal: { revocableId: 'other' } });
  expect(await show({ jti: '' })).toMatchObject({ principal: { revocableId: null } });
  expect(await show({})).toMatchObject({ principal: { revocableId: null } });
});
