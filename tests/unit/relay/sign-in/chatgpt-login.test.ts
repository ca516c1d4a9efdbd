import {
  chmodSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { FileLock } from '../../../../src/relay/service/store/registration-file.ts';
import { AuthFile } from '../../../../src/relay/sign-in/auth-file.ts';
import { AuthServices } from '../../../../src/relay/sign-in/auth-services.ts';
import { ChatGptLogin, chatGptTokensOf } from '../../../../src/relay/sign-in/chatgpt-login.ts';
import { waitFor } from '../../../support/wait-for.ts';
import {
  chatGptJson,
  codexFolder,
  FakeAuthService,
  fileLock,
  jwt,
  NOW,
  type Reply,
  readJson,
  recordedLog,
} from './auth-fixture.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** A token that expires at a time, relative to now. */
const expiring = (inMs: number, id = '') => jwt({ exp: Math.floor((NOW + inMs) / 1_000), id });

interface Situation {
  readonly json?: object;
  readonly lock?: FileLock | null;
  readonly home?: string;
  readonly renewable?: boolean;
  readonly env?: Record<string, string>;
}

async function open({
  json = chatGptJson(),
  lock = fileLock,
  home,
  renewable = true,
  env = {},
}: Situation = {}) {
  const service = await FakeAuthService.open();
  const folder = home ?? codexFolder({ 'auth.json': json });
  const { log, lines } = recordedLog();
  const path = join(folder, 'auth.json');
  const start = () =>
    new ChatGptLogin(chatGptTokensOf(readJson(path) as never)!, {
      file: new AuthFile(folder, lock, log, { lockTimeoutMs: 20_000 }),
      services: new AuthServices({ env: {} }),
      env: { CODEX_REFRESH_TOKEN_URL_OVERRIDE: `${service.url}/oauth/token`, ...env },
      log,
      renewable,
      now: () => NOW,
    });
  const store = (value: object) => writeFileSync(path, JSON.stringify(value));
  return { service, login: start(), start, path, folder, store, lines };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}`, 'chatgpt-account-id': 'account-1' });
const reasons = ({ asked }: FakeAuthService) => asked.map(({ text }) => JSON.parse(text).refresh_reason);

test('sends the access token and the account', async () => {
  const { login, service } = await open();
  expect(await login.headers()).toEqual(bearer('access-1'));
  expect(service.asked).toEqual([]);
});

test('sends no account that auth.json does not name, and marks an account of FedRAMP', async () => {
  const claims = { chatgpt_account_id: 'account-2', chatgpt_account_is_fedramp: true };
  const id = jwt({ 'https://api.openai.com/auth': claims });
  const { login } = await open({ json: chatGptJson({ id_token: id, account_id: null }) });
  expect(await login.headers()).toEqual({ authorization: 'Bearer access-1', 'x-openai-fedramp': 'true' });
});

describe('renews the login', () => {
  test.each([
    [expiring(4 * MINUTE), 0, ['proactive_expiry']],
    [expiring(6 * MINUTE), 0, []],
    [expiring(-DAY), 0, ['proactive_expiry']],
    [expiring(6 * MINUTE), 30 * DAY, []],
    ['opaque', 9 * DAY, ['scheduled']],
    ['opaque', 7 * DAY, []],
  ])('with the token %# and a last renewal %i ms ago for the reasons %j', async (token, ageMs, expected) => {
    const lastRefresh = new Date(NOW - ageMs).toISOString();
    const { login, service } = await open({
      json: chatGptJson({ access_token: token }, { last_refresh: lastRefresh }),
    });
    service.answer = () => ({ body: { access_token: 'access-2' } });
    await login.headers();
    expect(reasons(service)).toEqual(expected);
  });

  test('not without a date of the last renewal', async () => {
    const { login, service } = await open({ json: chatGptJson({}, { last_refresh: undefined }) });
    expect(await login.headers()).toEqual(bearer('access-1'));
    expect(service.asked).toEqual([]);
  });
});

test("sends the reference's request, and writes the new tokens back", async () => {
  const json = chatGptJson(
    { access_token: expiring(0), future: [1] },
    { OPENAI_API_KEY: null, more: { kept: 1 } },
  );
  const { login, service, path, folder } = await open({ json });
  chmodSync(path, 0o640);
  service.answer = () => ({ body: { access_token: 'access-2', refresh_token: 'refresh-2' } });
  expect(await login.headers()).toEqual(bearer('access-2'));
  expect(service.asked).toMatchObject([
    { line: 'POST /oauth/token', headers: { 'content-type': 'application/json' } },
  ]);
  expect(service.asked[0]!.text).toBe(
    '{"client_id":"app_EMoamEEZ73f0CkXaXp7hrann","grant_type":"refresh_token","refresh_reason":"proactive_expiry","refresh_token":"refresh-1"}',
  );
  expect(readJson(path)).toEqual({
    ...json,
    tokens: { ...json.tokens, access_token: 'access-2', refresh_token: 'refresh-2' },
    last_refresh: '2026-11-17T06:22:36.500Z',
  });
  expect(statSync(path).mode & 0o777).toBe(0o640);
  expect(readdirSync(folder).sort()).toEqual(['auth.json', 'auth.lock']);
});

test('uses another client id that a variable names', async () => {
  const env = { CODEX_APP_SERVER_LOGIN_CLIENT_ID: 'client-2' };
  const { login, service } = await open({ json: chatGptJson({ access_token: expiring(0) }), env });
  service.answer = () => ({ body: {} });
  await login.headers();
  expect(JSON.parse(service.asked[0]!.text).client_id).toBe('client-2');
});

describe('reads auth.json before it renews', () => {
  const expired = expiring(0);

  test('and uses a login that another process renewed', async () => {
    const { login, service, store } = await open({ json: chatGptJson({ access_token: expired }) });
    store(chatGptJson({ access_token: 'access-9', refresh_token: 'refresh-9' }));
    expect(await login.headers()).toEqual(bearer('access-9'));
    expect(service.asked).toEqual([]);
  });

  test.each([
    [
      'another account',
      chatGptJson({ account_id: 'account-2', access_token: 'access-9' }),
      'of another account',
    ],
    ['no login', {}, 'no ChatGPT login any more'],
  ])('and keeps its own token when it finds %s', async (_what, found, why) => {
    const { login, service, store, lines } = await open({ json: chatGptJson({ access_token: expired }) });
    store(found);
    expect(await login.headers()).toEqual(bearer(expired));
    expect(service.asked).toEqual([]);
    expect(lines.join()).toContain(why);
  });

  test('and does not renew tokens that another program renews', async () => {
    const { login, service } = await open({ json: chatGptJson({ access_token: expired }), renewable: false });
    expect(await login.headers()).toEqual(bearer(expired));
    expect(service.asked).toEqual([]);
  });
});

describe('a failed renewal', () => {
  test.each([
    [{ status: 401 }, 1],
    [{ status: 400, body: { error: 'invalid_grant' } }, 1],
    [{ status: 403, body: { error: { code: 'refresh_token_expired' } } }, 1],
    [{ status: 500, body: { code: 'refresh_token_reused' } }, 1],
    [{ status: 400, body: { error: { code: 'REFRESH_TOKEN_INVALIDATED' } } }, 1],
    [{ status: 400, body: { error: 'other' } }, 2],
    [{ status: 403, body: { error: 'invalid_grant' } }, 2],
    [{ status: 500 }, 2],
    [{ status: 302, location: '/x' }, 2],
    [{ body: 'not JSON' }, 2],
    ['cut', 2],
  ] as [Reply, number][])(
    'with %j is tried %i times in two requests, with the old token',
    async (reply, tries) => {
      const { login, service, lines } = await open({ json: chatGptJson({ access_token: expiring(0) }) });
      service.answer = () => reply;
      await login.headers();
      expect(await login.headers()).toEqual(bearer(expiring(0)));
      expect(service.asked).toHaveLength(tries);
      expect(lines.join()).toContain('cannot renew the login');
    },
  );

  test('is tried again for a new refresh token', async () => {
    const { login, service, store } = await open({ json: chatGptJson({ access_token: expiring(0) }) });
    service.answer = () => ({ status: 401 });
    await login.headers();
    store(chatGptJson({ access_token: expiring(1), refresh_token: 'refresh-2' }));
    await login.headers();
    await login.headers();
    const sent = service.asked.map(({ text }) => JSON.parse(text).refresh_token);
    expect(sent).toEqual(['refresh-1', 'refresh-2']);
  });

  test('shows no secret', async () => {
    const { login, service, lines } = await open({ json: chatGptJson({ access_token: expiring(0) }) });
    service.answer = ({ text }) => ({ status: 400, body: { error: `bad ${text}` } });
    await login.headers();
    expect(lines.join()).not.toMatch(/refresh-1|eyJ/);
  });

  test('refuses an unencrypted address of the token service', async () => {
    const env = { CODEX_REFRESH_TOKEN_URL_OVERRIDE: 'http://192.0.2.1/token' };
    await expect(open({ env })).rejects.toThrow('must begin with https://');
  });
});

describe('after a 401', () => {
  test('renews the login for the reason `forced`', async () => {
    const { login, service } = await open();
    service.answer = () => ({ body: { access_token: 'access-2' } });
    expect(await login.refreshAfterUnauthorized(bearer('access-1'))).toBe(true);
    expect(reasons(service)).toEqual(['forced']);
    expect(await login.headers()).toEqual(bearer('access-2'));
  });

  test('uses a login that changed in auth.json', async () => {
    const { login, service, store } = await open();
    store(chatGptJson({ access_token: 'access-9' }));
    expect(await login.refreshAfterUnauthorized(bearer('access-1'))).toBe(true);
    expect(await login.headers()).toEqual(bearer('access-9'));
    expect(service.asked).toEqual([]);
  });

  test('does not renew a login that was renewed since the request', async () => {
    const { login, service } = await open();
    expect(await login.refreshAfterUnauthorized(bearer('access-0'))).toBe(true);
    expect(service.asked).toEqual([]);
  });

  test('does not retry when the renewal fails', async () => {
    const { login, service } = await open();
    service.answer = () => ({ status: 500 });
    expect(await login.refreshAfterUnauthorized(bearer('access-1'))).toBe(false);
  });

  test('shares one renewal among concurrent requests', async () => {
    const { login, service } = await open();
    service.answer = () => ({ body: { access_token: 'access-2' } });
    const renewals = Array.from({ length: 5 }, () => login.refreshAfterUnauthorized(bearer('access-1')));
    expect(await Promise.all(renewals)).toEqual(Array(5).fill(true));
    expect(service.asked).toHaveLength(1);
  });
});

describe.skipIf(fileLock === null)('several processes', () => {
  test('use a refresh token once, and lose none', async () => {
    const { service, start, path } = await open({ json: chatGptJson({ access_token: expiring(0) }) });
    let issued = 1;
    service.answer = ({ text }) => {
      // The service accepts each refresh token once.
      if (JSON.parse(text).refresh_token !== `refresh-${issued}`) return { status: 401 };
      issued++;
      return { body: { access_token: expiring(DAY, String(issued)), refresh_token: `refresh-${issued}` } };
    };
    // Each has its own descriptor of auth.lock, like a process.
    const logins = Array.from({ length: 8 }, start);
    const headers = await Promise.all(logins.map((login) => login.headers()));
    expect(service.asked).toHaveLength(1);
    expect(new Set(headers.map(({ authorization }) => authorization)).size).toBe(1);
    expect(readJson(path)).toMatchObject({ tokens: { refresh_token: 'refresh-2' } });
  });

  test('wait for the lock of another one', async () => {
    const { login, service, folder, start } = await open({
      json: chatGptJson({ access_token: expiring(0) }),
    });
    let answer: (reply: Reply) => void = () => {};
    service.answer = () => new Promise((resolve) => (answer = resolve));
    const first = login.headers();
    await waitFor('the request', () => service.asked.length === 1);
    expect(readdirSync(folder)).toContain('auth.lock');
    const second = start().headers();
    answer({ body: { access_token: 'access-2' } });
    expect(await Promise.all([first, second])).toEqual([bearer('access-2'), bearer('access-2')]);
    expect(service.asked).toHaveLength(1);
  });

  test('keep the old token when another one keeps the lock', async () => {
    const { service, folder, path, lines } = await open({ json: chatGptJson({ access_token: expiring(0) }) });
    const { log } = recordedLog();
    const held = new AuthFile(folder, fileLock, log);
    let release: (() => void) | null = null;
    const holding = held.locked(() => new Promise<void>((resolve) => (release = resolve)));
    const impatient = new ChatGptLogin(chatGptTokensOf(readJson(path) as never)!, {
      file: new AuthFile(folder, fileLock, log, { lockTimeoutMs: 1 }),
      services: new AuthServices({ env: {} }),
      env: { CODEX_REFRESH_TOKEN_URL_OVERRIDE: service.url },
      log: {
        debug: () => {},
        info: () => {},
        error: () => {},
        warn: (text, fields) => lines.push(JSON.stringify([text, fields])),
      },
      renewable: true,
      now: () => NOW,
    });
    await waitFor('the lock', () => release !== null);
    expect(await impatient.headers()).toEqual(bearer(expiring(0)));
    expect(lines.join()).toContain('another process keeps');
    expect(service.asked).toEqual([]);
    release!();
    await holding;
  });
});

test.each([
  ['without locks', null, 'file locks are not available'],
  [
    'with a file system without locks',
    () => {
      throw new Error('no locks here');
    },
    'no locks here',
  ],
] as const)('renews %s, with one warning', async (_what, lock, why) => {
  const { login, service, lines } = await open({ json: chatGptJson({ access_token: expiring(0) }), lock });
  service.answer = () => ({ body: { access_token: expiring(1), refresh_token: 'refresh-2' } });
  await login.headers();
  await login.headers();
  expect(service.asked).toHaveLength(2);
  expect(lines.filter((line) => line.includes(why))).toHaveLength(1);
});

describe('the renewed login', () => {
  test('replaces the target of a symbolic link', async () => {
    const { login, service, path, folder } = await open({ json: chatGptJson({ access_token: expiring(0) }) });
    const target = join(folder, 'target.json');
    renameSync(path, target);
    symlinkSync(target, path);
    service.answer = () => ({ body: { access_token: 'access-2' } });
    await login.headers();
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
    expect(readJson(target)).toMatchObject({ tokens: { access_token: 'access-2' } });
  });

  test('is another file than before, so that no reader sees a part of it', async () => {
    const { login, service, path } = await open({ json: chatGptJson({ access_token: expiring(0) }) });
    const before = statSync(path).ino;
    service.answer = () => ({ body: { access_token: 'access-2' } });
    await login.headers();
    expect(statSync(path).ino).not.toBe(before);
  });

  test('works in memory when it cannot be stored, and is not replaced by the old one', async () => {
    const { login, service, path, lines } = await open({ json: chatGptJson({ access_token: expiring(0) }) });
    const stored = readFileSync(path);
    const answers = [
      { access_token: expiring(1), refresh_token: 'refresh-2' },
      { access_token: 'access-3', refresh_token: 'refresh-3' },
    ];
    const write = AuthFile.prototype.write;
    AuthFile.prototype.write = async () => {
      throw new Error('no space');
    };
    try {
      service.answer = () => ({ body: answers.shift()! });
      expect(await login.headers()).toEqual(bearer(expiring(1)));
    } finally {
      AuthFile.prototype.write = write;
    }
    expect(readFileSync(path)).toEqual(stored);
    expect(lines.join()).toContain('cannot store the renewed login');
    expect(await login.headers()).toEqual(bearer('access-3'));
    expect(JSON.parse(service.asked[1]!.text).refresh_token).toBe('refresh-2');
    expect(readJson(path)).toMatchObject({ tokens: { refresh_token: 'refresh-3' } });
  });

  test('is stored before `settled` resolves', async () => {
    const { login, service, path } = await open();
    let answer: (reply: Reply) => void = () => {};
    service.answer = () => new Promise((resolve) => (answer = resolve));
    const renewing = login.refreshAfterUnauthorized(bearer('access-1'));
    await waitFor('the request', () => service.asked.length === 1);
    const settled = login.settled().then(() => readJson(path));
    answer({ body: { access_token: 'access-2' } });
    expect(await settled).toMatchObject({ tokens: { access_token: 'access-2' } });
    expect(await renewing).toBe(true);
  });
});

test.each([
  ['no tokens', { tokens: null }],
  ['an id token that is not a JSON Web Token', chatGptJson({ id_token: 'x' })],
  ['an id token without JSON', chatGptJson({ id_token: 'a.b.c' })],
  ['no access token', chatGptJson({ access_token: undefined })],
  ['an access token that is not valid in a header', chatGptJson({ access_token: 'a b' })],
  ['no refresh token', chatGptJson({ refresh_token: 1 })],
  ['an invalid account', chatGptJson({ account_id: 1 })],
])('auth.json with %s is no login', (_what, json) => {
  expect(chatGptTokensOf(json as never)).toBeNull();
});
