import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  type SignedTokenRules,
  signedTokenVerifier,
  signToken,
} from '../../../../src/server/auth/signed-token.ts';

const SECRET = 's'.repeat(32);
const NOW_SECONDS = 1_800_000_000;
const RULES: SignedTokenRules = { secret: SECRET, issuer: '', audience: '', maxClockSkewSeconds: 30 };

function check(token: string, rules: Partial<SignedTokenRules> = {}) {
  return signedTokenVerifier({ ...RULES, ...rules }, () => NOW_SECONDS * 1_000)(token);
}

const claims = (more: Record<string, unknown> = {}) => ({ exp: NOW_SECONDS + 60, ...more });
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

function signedAs(header: unknown, digest: string, secret = SECRET): string {
  const content = `${part(header)}.${part(claims())}`;
  return `${content}.${createHmac(digest, secret).update(content).digest('base64url')}`;
}

test('accepts a valid token; without limits it allows everything', () => {
  expect(check(signToken(claims({ jti: 'one' }), SECRET))).toEqual({
    kind: 'signedToken',
    tokenId: 'one',
    owner: 'token:one',
    revocableId: 'one',
    limits: {},
    expiresAtMs: (NOW_SECONDS + 60 + 30) * 1_000,
  });
});

test('names the subject of a token as the owner; a token without one is an owner of its own', () => {
  const owner = (more: Record<string, unknown>) => {
    const checked = check(signToken(claims(more), SECRET));
    return 'problem' in checked ? null : checked.owner;
  };
  expect(owner({ sub: 'ana', jti: 'one' })).toBe('ana');
  expect(owner({ sub: '', jti: 'one' })).toBe('token:one');
  expect(owner({ sub: 7, jti: 'one' })).toBe('token:one');
  expect(owner({})).toMatch(/^token:[0-9a-f]{64}$/);
  expect(owner({ nonce: 1 })).not.toBe(owner({ nonce: 2 }));
});

test('identifies a token without an id by a part of its digest', () => {
  const token = signToken(claims(), SECRET);
  const accepted = check(token);
  expect(accepted).toMatchObject({ tokenId: expect.stringMatching(/^[0-9a-f]{8}$/) });
  expect(JSON.stringify(accepted)).not.toContain(token.split('.')[2]);
});

test('replaces control characters in an id', () => {
  expect(check(signToken(claims({ jti: 'a\nb' }), SECRET))).toMatchObject({ tokenId: 'a?b' });
});

test.each<[string, string]>([
  ['whose signature has another spelling', `${signToken(claims(), SECRET)}!`],
  ['signed with another secret', signToken(claims(), 'x'.repeat(32))],
  ['signed with HS512', signedAs({ alg: 'HS512' }, 'sha512')],
  ['that says HS384 and is signed with HS256', signedAs({ alg: 'HS384' }, 'sha256')],
  ['that says none', `${part({ alg: 'none' })}.${part(claims())}.`],
  ['without a signature', `${part({ alg: 'HS256' })}.${part(claims())}`],
  ['with a part too many', `${signToken(claims(), SECRET)}.x`],
  ['that is not a JWT', 'garbage'],
  ['with three invalid parts', 'a.b.c'],
  ['without exp', signToken({}, SECRET)],
  ['with exp as text', signToken({ exp: String(NOW_SECONDS + 60) }, SECRET)],
  ['with a fractional exp', signToken({ exp: NOW_SECONDS + 60.5 }, SECRET)],
  ['with nbf as text', signToken(claims({ nbf: 'now' }), SECRET)],
  ['with aud of the wrong type', signToken(claims({ aud: 5 }), SECRET)],
  ['with a number among its audiences', signToken(claims({ aud: ['a', 5] }), SECRET)],
  ['with iss of the wrong type', signToken(claims({ iss: 5 }), SECRET)],
  ['whose claims are a list', signToken([] as never, SECRET)],
])('rejects a token %s', (_, token) => {
  expect(check(token)).toEqual({ problem: 'invalid websocket jwt' });
});

test('rejects a token with any bit of its signature changed', () => {
  const token = signToken(claims(), SECRET);
  const at = token.lastIndexOf('.') + 1;
  const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
  expect(check(changed)).toEqual({ problem: 'invalid websocket jwt' });
});

test.each<[string, Record<string, unknown>, Partial<SignedTokenRules>, string | null]>([
  ['at the end of the skew', { exp: NOW_SECONDS - 30 }, {}, null],
  ['after the end of the skew', { exp: NOW_SECONDS - 31 }, {}, 'expired websocket jwt'],
  ['at the beginning of the skew', { nbf: NOW_SECONDS + 30 }, {}, null],
  ['before the beginning of the skew', { nbf: NOW_SECONDS + 31 }, {}, 'websocket jwt is not valid yet'],
  ['without skew', { exp: NOW_SECONDS - 1 }, { maxClockSkewSeconds: 0 }, 'expired websocket jwt'],
  ['of any issuer without a rule', { iss: 'x' }, {}, null],
  ['of the issuer', { iss: 'x' }, { issuer: 'x' }, null],
  ['of another issuer', { iss: 'y' }, { issuer: 'x' }, 'websocket jwt issuer mismatch'],
  ['of no issuer', {}, { issuer: 'x' }, 'websocket jwt issuer mismatch'],
  ['for the audience', { aud: 'x' }, { audience: 'x' }, null],
  ['for several audiences', { aud: ['y', 'x'] }, { audience: 'x' }, null],
  ['for another audience', { aud: ['y'] }, { audience: 'x' }, 'websocket jwt audience mismatch'],
  ['for no audience', {}, { audience: 'x' }, 'websocket jwt audience mismatch'],
  ['with the wrong issuer and audience', {}, { issuer: 'x', audience: 'x' }, 'websocket jwt issuer mismatch'],
  ['with an unknown claim', { scope: 'openid', iat: 'x', typ: 1 }, {}, null],
])('checks a token %s', (_, more, rules, problem) => {
  const outcome = check(signToken(claims(more), SECRET), rules);
  if (problem === null) expect(outcome).toHaveProperty('tokenId');
  else expect(outcome).toEqual({ problem });
});

test.each<[unknown, boolean]>([
  [{ scopes: ['exec'] }, true],
  [{ scopes: ['files'], path: '/srv/data' }, true],
  [{ scopes: ['read-only'], path: '/' }, true],
  [{ environment: 'build' }, true],
  [{}, true],
  [{ scopes: [] }, false],
  [{ scopes: ['exec', 'root'] }, false],
  [{ scopes: ['files', 'read-only'] }, false],
  [{ scopes: ['net'] }, true],
  [{ scopes: ['read-only', 'net'], path: '/srv' }, true],
  [{ scopes: ['net'], path: '/srv' }, false],
  [{ scopes: 'exec' }, false],
  [{ scopes: ['exec'], path: '/srv' }, false],
  [{ path: '/srv' }, false],
  [{ scopes: ['files'], path: 'srv' }, false],
  [{ scopes: ['files'], path: '/srv/../etc' }, false],
  [{ scopes: ['files'], path: '/srv/' }, false],
  [{ scopes: ['files'], path: '/srv\0' }, false],
  [{ environment: '' }, false],
  [{ scopes: ['exec'], until: 'noon' }, false],
  [['exec'], false],
  [null, false],
  ['exec', false],
])('accepts the limits %j: %s', (limits, accepted) => {
  const outcome = check(signToken(claims({ exec_server: limits }), SECRET));
  if (accepted) expect(outcome).toMatchObject({ limits });
  else expect(outcome).toEqual({ problem: 'invalid websocket jwt' });
});
