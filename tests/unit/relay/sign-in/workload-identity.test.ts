import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { AuthServices } from '../../../../src/relay/sign-in/auth-services.ts';
import { DEFAULT_CHATGPT_BASE_URL } from '../../../../src/relay/sign-in/codex-config.ts';
import { WorkloadIdentity } from '../../../../src/relay/sign-in/workload-identity.ts';
import { codexFolder, FakeAuthService, jwt, NOW, type Reply } from './auth-fixture.ts';

const accessToken = (id: number, userId = 'user-1') =>
  jwt({ 'https://api.openai.com/auth': { chatgpt_user_id: userId }, id });

const answer = (id: number, more: object = {}) => ({
  body: {
    access_token: accessToken(id),
    chatgpt_account_id: 'account-1',
    chatgpt_account_user_id: 'account-user-1',
    user_id: 'user-1',
    scope: 'codex',
    token_type: 'Bearer',
    issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    expires_in: 3_600,
    ...more,
  },
});

async function open(env: Record<string, string> = {}) {
  const service = await FakeAuthService.open();
  const folder = codexFolder({ token: ' identity-1\n' });
  const file = join(folder, 'token');
  const clock = { now: NOW };
  const create = (more: Record<string, string | undefined> = {}) =>
    new WorkloadIdentity({
      services: new AuthServices({ env: {} }),
      env: { OPENAI_FEDERATION_RULE_ID: ' rule-1 ', OPENAI_IDENTITY_TOKEN_FILE: file, ...env, ...more },
      chatgptBaseUrl: DEFAULT_CHATGPT_BASE_URL,
      workspaces: null,
      tokenUrl: new URL(`${service.url}/oauth/token`),
      now: () => clock.now,
    });
  let count = 0;
  service.answer = () => answer(++count);
  return { service, file, clock, create, workload: create() };
}

const bearer = (id: number) => ({
  authorization: `Bearer ${accessToken(id)}`,
  'chatgpt-account-id': 'account-1',
});

test("sends the reference's request, and uses the token and the account of the answer", async () => {
  const { service, workload } = await open({ OPENAI_WORKLOAD_IDENTITY_CONTEXT: 'a b' });
  expect(await workload.headers()).toEqual(bearer(1));
  expect(service.asked).toMatchObject([
    {
      line: 'POST /oauth/token',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      text: 'grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=identity-1&federation_rule_id=rule-1&workload_identity_context=a+b',
    },
  ]);
  expect(service.asked[0]!.headers.authorization).toBeUndefined();
});

test.each([
  [{ OPENAI_FEDERATION_RULE_ID: undefined }, 'needs OPENAI_FEDERATION_RULE_ID'],
  [{ OPENAI_FEDERATION_RULE_ID: ' ' }, 'needs OPENAI_FEDERATION_RULE_ID'],
  [{ OPENAI_IDENTITY_TOKEN_FILE: undefined }, 'needs OPENAI_IDENTITY_TOKEN_FILE'],
  [{ OPENAI_IDENTITY_TOKEN_FILE: 'token' }, 'must be an absolute path'],
])('rejects the variables %j', async (more, why) => {
  const { create } = await open();
  expect(() => create(more)).toThrow(expect.objectContaining({ name: 'CredentialError' }));
  expect(() => create(more)).toThrow(why);
});

test.each([
  [3_600, 3_600_000 - 120_000],
  [8, 4_000],
])(
  'renews a token of %i s after %i ms, and reads the identity token again',
  async (seconds, renewedAfter) => {
    const { service, file, clock, workload } = await open();
    let count = 0;
    service.answer = () => answer(++count, { expires_in: seconds });
    await workload.headers();
    clock.now = NOW + renewedAfter - 1;
    expect(await workload.headers()).toEqual(bearer(1));
    writeFileSync(file, 'identity-2');
    clock.now = NOW + renewedAfter;
    expect(await workload.headers()).toEqual(bearer(2));
    expect(service.asked[1]!.text).toContain('assertion=identity-2');
  },
);

test('shares one exchange among concurrent requests', async () => {
  const { service, workload } = await open();
  await Promise.all(Array.from({ length: 5 }, () => workload.headers()));
  expect(service.asked).toHaveLength(1);
});

describe('a failed renewal', () => {
  test.each([[{ status: 500 }], [{ status: 429 }], ['cut']] as [Reply][])(
    'with %j keeps a valid token for 30 s',
    async (reply) => {
      const { service, clock, workload } = await open();
      await workload.headers();
      service.answer = () => reply;
      clock.now = NOW + 3_500_000;
      expect(await workload.headers()).toEqual(bearer(1));
      clock.now += 29_999;
      await workload.headers();
      expect(service.asked).toHaveLength(2);
      clock.now += 1;
      expect(await workload.headers()).toEqual(bearer(1));
      expect(service.asked).toHaveLength(3);
      clock.now = NOW + 3_600_000;
      await expect(workload.headers()).rejects.toMatchObject({ name: 'RegistryError', retryable: true });
    },
  );

  test('keeps a valid token while the identity token does not exist', async () => {
    const { file, clock, workload } = await open();
    await workload.headers();
    rmSync(file);
    clock.now = NOW + 3_500_000;
    expect(await workload.headers()).toEqual(bearer(1));
  });

  test('that is refused is an error', async () => {
    const { service, clock, workload } = await open();
    await workload.headers();
    service.answer = () => ({ status: 403, body: 'identity-1' });
    clock.now = NOW + 3_500_000;
    await expect(workload.headers()).rejects.toThrow(/^cannot sign in with workload identity: .*HTTP 403$/);
  });
});

describe('after a 401', () => {
  test('exchanges again', async () => {
    const { workload } = await open();
    const refused = await workload.headers();
    expect(await workload.refreshAfterUnauthorized(refused)).toBe(true);
    expect(await workload.headers()).toEqual(bearer(2));
    expect(await workload.refreshAfterUnauthorized(refused)).toBe(true);
    expect(await workload.headers()).toEqual(bearer(2));
  });

  test('does not retry when the exchange fails', async () => {
    const { service, workload } = await open();
    const refused = await workload.headers();
    service.answer = () => ({ status: 500 });
    expect(await workload.refreshAfterUnauthorized(refused)).toBe(false);
  });
});

test.each([
  [{ access_token: 'opaque' }],
  [{ access_token: accessToken(1, 'user-2') }],
  [{ access_token: undefined }],
  [{ chatgpt_account_id: ' ' }],
  [{ chatgpt_account_id: 'a\nb' }],
  [{ chatgpt_account_user_id: undefined }],
  [{ user_id: 'user-2' }],
  [{ scope: '' }],
  [{ token_type: 'mac' }],
  [{ issued_token_type: 'x' }],
  [{ expires_in: 0 }],
  [{ expires_in: 1.5 }],
  [{ expires_in: 7_200 }],
  [{ chatgpt_plan_type: '' }],
])('rejects an answer with %j', async (more) => {
  const { service, workload } = await open();
  service.answer = () => answer(1, more);
  await expect(workload.headers()).rejects.toThrow('is not valid');
});

test('rejects another user or account later on', async () => {
  const { service, clock, workload } = await open();
  await workload.headers();
  service.answer = () => answer(2, { chatgpt_account_id: 'account-2' });
  clock.now += 3_500_000;
  await expect(workload.headers()).rejects.toThrow('the account or user changed');
});

test.each([
  ['', 'contains no token'],
  ['a\0b', 'contains no token'],
  ['x'.repeat(16 * 1024 + 1), 'has more than 16384 bytes'],
])('rejects an invalid identity token without a request', async (content, why) => {
  const { service, file, workload } = await open();
  writeFileSync(file, content);
  await expect(workload.headers()).rejects.toThrow(why);
  expect(service.asked).toEqual([]);
});

test('does not follow a redirect', async () => {
  const { service, workload } = await open();
  service.answer = () => ({ status: 307, location: '/elsewhere' });
  await expect(workload.headers()).rejects.toThrow('HTTP 307');
  expect(service.asked).toHaveLength(1);
});
