import { createPublicKey, verify } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { agentIdentityAuth } from '../../../../src/relay/sign-in/agent-identity.ts';
import { AuthServices } from '../../../../src/relay/sign-in/auth-services.ts';
import { DEFAULT_CHATGPT_BASE_URL } from '../../../../src/relay/sign-in/codex-config.ts';
import { openSealedBox } from '../../../../src/relay/sign-in/sealed-box.ts';
import {
  AGENT_SEED,
  agentToken,
  FakeAuthService,
  NOW,
  PUBLIC_KEYS,
  type Reply,
  signal,
} from './auth-fixture.ts';

// Keys made for these tests. The signatures, the header and the opened box are those of codex 0.166.0.
const TASK_SIGNATURE =
  'VRP5wawNWpjObch1izCVuCSagSzBCNGYttH8f0orLHb48L2hleGd8/Kd7Htg3MrYuWa+q+hkP4Wi+TVw3yc5BQ==';
const HEADER =
  'AgentAssertion eyJhZ2VudF9ydW50aW1lX2lkIjoiYWdlbnQtcnVudGltZS0xIiwic2lnbmF0dXJlIjoiWks3UFYrZnhMc2JNRmpPOThFNGlEbmpMK3MzQWwya2JyRTNuYm0yWWxxbkwwT1lQckVoSjJmcTlwTC9ldGc0bmtkV3VrV20yL0FYN25NR0Z6eXc0QVE9PSIsInRhc2tfaWQiOiJ0YXNrLTEiLCJ0aW1lc3RhbXAiOiIyMDI2LTExLTE3VDA2OjIyOjM2WiJ9';
const SEALED_TASK = '09JbdyDXdCQQTg9CAKA6Imbi893aHq+t4u5f5CM7RxiGYeiUpjqniritmIGxCPz5Vi25ZSUiPmfgo9lWSA==';
const PUBLIC_KEY = '609eed01793ec7bc2091b7d2f209a0756b4cdfb762bcb6e7b9c05ca7787f9ee3';

const KEYS_LINE = 'GET /agent-identities/jwks';
const TASK_LINE = 'POST /v1/agent/agent-runtime-1/task/register';

async function open(tasks: Reply[] = [{ body: { task_id: 'task-1' } }]) {
  const service = await FakeAuthService.open();
  service.answer = ({ line }) => (line === KEYS_LINE ? { body: PUBLIC_KEYS } : tasks.shift()!);
  const env = {
    CODEX_AGENT_IDENTITY_JWKS_BASE_URL: `${service.url}/`,
    CODEX_AGENT_IDENTITY_AUTHAPI_BASE_URL: service.url,
  };
  const options = {
    services: new AuthServices({ env: {} }),
    env,
    chatgptBaseUrl: DEFAULT_CHATGPT_BASE_URL,
    workspaces: null as readonly string[] | null,
    now: () => NOW,
  };
  const signIn = (token: string, more: Partial<typeof options> = {}) =>
    agentIdentityAuth(token, { ...options, ...more }, signal);
  return { service, signIn, env };
}

test('checks the token, registers a task, and signs requests like the reference', async () => {
  const { service, signIn } = await open();
  const auth = await signIn(agentToken());
  expect(service.lines()).toEqual([KEYS_LINE, TASK_LINE]);
  expect(service.asked.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
  expect(JSON.parse(service.asked[1]!.text)).toEqual({
    timestamp: '2026-11-17T06:22:36Z',
    signature: TASK_SIGNATURE,
  });
  expect(auth.headers()).toEqual({ authorization: HEADER, 'chatgpt-account-id': 'account-1' });
  expect(auth.refreshAfterUnauthorized).toBeUndefined();
});

test('signs each request with its own time', async () => {
  const { signIn } = await open();
  let now = NOW;
  const auth = await signIn(agentToken({ chatgpt_account_is_fedramp: true }), { now: () => now });
  now += 90_000;
  const { authorization, ...account } = (await auth.headers()) as Record<string, string>;
  const assertion = JSON.parse(Buffer.from(authorization!.split(' ')[1]!, 'base64url').toString());
  expect(assertion.timestamp).toBe('2026-11-17T06:24:06Z');
  const key = createPublicKey({
    key: Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(PUBLIC_KEY, 'hex')]),
    format: 'der',
    type: 'spki',
  });
  const text = Buffer.from('agent-runtime-1:task-1:2026-11-17T06:24:06Z');
  expect(verify(null, text, key, Buffer.from(assertion.signature, 'base64'))).toBe(true);
  expect(account).toEqual({ 'chatgpt-account-id': 'account-1', 'x-openai-fedramp': 'true' });
});

test.each([
  [{ task_id: 'a', taskId: 'b', encrypted_task_id: SEALED_TASK }, 'a'],
  [{ taskId: 'b' }, 'b'],
  [{ task_id: '' }, ''],
  [{ encrypted_task_id: SEALED_TASK }, 'task-sealed-1'],
  [{ encryptedTaskId: SEALED_TASK }, 'task-sealed-1'],
])('reads the task id of %j', async (body, taskId) => {
  const { signIn } = await open([{ body }]);
  const { authorization } = await (await signIn(agentToken())).headers();
  const assertion = JSON.parse(Buffer.from(authorization!.split(' ')[1]!, 'base64url').toString());
  expect(assertion.task_id).toBe(taskId);
});

test.each([
  [{}, 'has no task id'],
  [{ encrypted_task_id: 'not base64' }, 'has no task id'],
  [{ encrypted_task_id: SEALED_TASK.replace('09Jb', '09Ja') }, 'is not encrypted for this agent'],
  [{ encrypted_task_id: 'AAAA' }, 'is not encrypted for this agent'],
])('rejects the task %j', async (body, why) => {
  const { signIn } = await open([{ body }]);
  await expect(signIn(agentToken())).rejects.toThrow(why);
});

test('opens a sealed box, and no changed one', async () => {
  const sealed = Buffer.from(SEALED_TASK, 'base64');
  expect((await openSealedBox(AGENT_SEED, sealed)).toString()).toBe('task-sealed-1');
  for (const at of [0, 31, 32, 48, sealed.length - 1]) {
    const changed = Buffer.from(sealed);
    changed[at]! ^= 1;
    await expect(openSealedBox(AGENT_SEED, changed)).rejects.toThrow();
  }
});

describe('without a request', () => {
  test.each([
    'iss',
    'aud',
    'exp',
    'iat',
    'agent_runtime_id',
    'agent_private_key',
    'account_id',
    'chatgpt_user_id',
    'plan_type',
    'chatgpt_account_is_fedramp',
  ])('rejects a token without the claim %s', async (name) => {
    const { service, signIn } = await open();
    await expect(signIn(agentToken({ [name]: undefined }))).rejects.toThrow(
      `Agent Identity authentication is unavailable: the token has no valid claim '${name}'`,
    );
    expect(service.asked).toEqual([]);
  });

  test.each([
    ['x', 'the token is not a JSON Web Token'],
    ['a.b', 'the token is not a JSON Web Token'],
    [agentToken({ aud: ['codex-app-server'] }), "no valid claim 'aud'"],
    [agentToken({ exp: NOW / 1_000 }), "no valid claim 'exp'"],
    [agentToken({ iat: -1 }), "no valid claim 'iat'"],
  ])('rejects the token %#', async (token, why) => {
    const { service, signIn } = await open();
    await expect(signIn(token)).rejects.toThrow(why);
    expect(service.asked).toEqual([]);
  });

  test('rejects an account that the configuration does not permit', async () => {
    const { service, signIn } = await open();
    await expect(signIn(agentToken(), { workspaces: ['other'] })).rejects.toThrow(
      'its account is not in forced_chatgpt_workspace_id',
    );
    expect(service.asked).toEqual([]);
  });

  test.each([
    ['https://elsewhere.example', {}],
    ['https://chatgpt.com.elsewhere.example/backend-api', {}],
    ['http://chatgpt.com/backend-api', {}],
  ])('rejects the configured address %s', async (chatgptBaseUrl, env) => {
    const { service, signIn } = await open();
    await expect(signIn(agentToken(), { chatgptBaseUrl, env: env as never })).rejects.toThrow(
      'chatgpt_base_url is not an address of OpenAI',
    );
    expect(service.asked).toEqual([]);
  });

  test.each(['CODEX_AGENT_IDENTITY_JWKS_BASE_URL', 'CODEX_AGENT_IDENTITY_AUTHAPI_BASE_URL'])(
    'rejects an unencrypted address in %s',
    async (name) => {
      const { service, signIn, env } = await open();
      const plain = { ...env, [name]: 'http://192.0.2.1' };
      const failure = signIn(agentToken(), { env: plain });
      await expect(failure).rejects.toThrow(`${name} must begin with https://`);
      expect(service.asked).toEqual([]);
    },
  );
});

test('accepts another address if the variables agree with it', async () => {
  const { service, signIn } = await open();
  const auth = await signIn(agentToken(), { chatgptBaseUrl: service.url });
  expect(await auth.headers()).toMatchObject({ authorization: HEADER });
});

test.each([
  [agentToken({ iss: 'https://elsewhere.example' }), 'is not issued by'],
  [agentToken({ aud: 'other' }), 'is not for codex-app-server'],
  [agentToken({ exp: Math.floor(NOW / 1_000) - 600 }), 'has expired'],
  [agentToken({}, { kid: 'key-2' }), 'is signed with an unknown key'],
  [agentToken({}, { kid: undefined }), 'is signed with an unknown key'],
  [agentToken({}, { alg: 'RS512' }), 'is not signed with RS256'],
  [agentToken({}, { alg: 'none' }), 'is not signed with RS256'],
  [agentToken().replace(/.{8}$/, 'AAAAAAAA'), 'the signature of the token is wrong'],
  [agentToken({ agent_private_key: 'AAAA' }), 'is not a PKCS #8 key'],
  [
    agentToken({ agent_private_key: 'MC4CAQAwBQYDK2VuBCIEIAQqFX9ZkyIBvDYqh9fAcNjZM0oEfB6iIl+SFxMicWet' }),
    'is not an Ed25519 key',
  ],
])('rejects the token %#, and registers no task', async (token, why) => {
  const { service, signIn } = await open();
  const failure = await signIn(token).then(
    () => expect.unreachable(),
    (error: Error) => error,
  );
  expect(failure).toMatchObject({ name: 'CredentialError', message: expect.stringContaining(why) });
  expect(failure.message).not.toContain(token.split('.')[1]);
  expect(service.lines()).toEqual([KEYS_LINE]);
});

test('accepts a token that expired less than a minute ago, or is not yet valid', async () => {
  const { signIn } = await open();
  const exp = Math.floor(NOW / 1_000) - 30;
  expect(await signIn(agentToken({ exp, nbf: exp + 600 }))).toHaveProperty('headers');
});

test.each([
  [{ status: 500 }, 'HTTP 500'],
  [{ body: 'x' }, 'are not valid'],
  ['cut' as const, 'cannot reach 127.0.0.1'],
])('asks once for public keys, and fails at %j', async (reply, why) => {
  const { service, signIn } = await open();
  service.answer = () => reply;
  await expect(signIn(agentToken())).rejects.toThrow(why);
  expect(service.lines()).toEqual([KEYS_LINE]);
});

describe('the registration of the task', () => {
  const good = { body: { task_id: 'task-1' } };

  test.each([
    [[{ status: 429 }, 'cut', good], true, 3],
    [[{ status: 503 }, { status: 500 }, { status: 502 }], false, 3],
    [[{ status: 403 }], false, 1],
    [[{ status: 302, location: '/x' }], false, 1],
  ] as [Reply[], boolean, number][])('after %j succeeds: %s', async (replies, succeeds, count) => {
    const { service, signIn } = await open([...replies]);
    const outcome = await signIn(agentToken()).then(
      () => true,
      () => false,
    );
    expect([outcome, service.lines().filter((line) => line !== KEYS_LINE).length]).toEqual([succeeds, count]);
  });

  test('follows a redirect that keeps the request', async () => {
    const { service, signIn } = await open([{ status: 307, location: '/elsewhere' }, good]);
    await signIn(agentToken());
    expect(service.lines()).toEqual([KEYS_LINE, TASK_LINE, 'POST /elsewhere']);
    expect(service.asked[2]!.text).toBe(service.asked[1]!.text);
  });

  test('does not follow a redirect to an unencrypted connection, or many redirects', async () => {
    const plain = { status: 307, location: 'http://192.0.2.1/' };
    const first = await open([plain, plain, plain]);
    await expect(first.signIn(agentToken())).rejects.toThrow('leads to an unencrypted connection');
    const around = { status: 308, location: '/again' };
    const second = await open(Array(30).fill(around));
    await expect(second.signIn(agentToken())).rejects.toThrow('redirects too often');
  });
});
