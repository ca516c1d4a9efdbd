import { describe, expect, test } from 'vitest';
import { type AuthHeaders, bearerAuth, type RegistryAuth } from '../../../src/relay/registry-auth.ts';
import { parseRegistryUrl, RegistryClient } from '../../../src/relay/registry-client.ts';
import { FakeRegistry } from './fake-registry.ts';
import { executorKey, failure, harnessKey, signal } from './registry-fixture.ts';

test('rejects a response that contains the credential, without showing it', async () => {
  const registry = await FakeRegistry.open();
  const auth = { ...bearerAuth('token-1'), revealedIn: (text: string) => text.includes('token-1') };
  const url = parseRegistryUrl(registry.url);
  const client = new RegistryClient({ url, environmentId: 'env-1', auth, env: {} });
  registry.answer = () => registry.registration('with token-1 in it');
  await expect(client.register(executorKey, signal)).rejects.toThrow('it contains the credential');
  registry.answer = () => ({ status: 403, body: { error: { code: 'c', message: 'not token-1' } } });
  await expect(client.register(executorKey, signal)).rejects.toThrow(/HTTP 403 \(c: not \*\*\*\)$/);
});

const HARD_TOKEN = 'c2VjcmV0/a2V5+x_-%7E"&<tail==';
const asBase64 = (text: string) => Buffer.from(text).toString('base64');
const hexEscaped = (text: string, prefix: string) =>
  [...text].map((char) => `${prefix}${char.charCodeAt(0).toString(16).padStart(2, '0')}`).join('');

test.each<[string, string]>([
  ['in upper case', HARD_TOKEN.toUpperCase()],
  ['in JSON within JSON', JSON.stringify({ error: { message: JSON.stringify({ token: HARD_TOKEN }) } })],
  ['percent-encoded', JSON.stringify({ error: { message: `?t=${encodeURIComponent(HARD_TOKEN)}` } })],
  ['fully percent-encoded', hexEscaped(HARD_TOKEN, '%').toLowerCase()],
  ['in HTML', `<p>no ${HARD_TOKEN.replace(/[&<"/]/g, (char) => `&#${char.charCodeAt(0)};`)}</p>`],
  ['in base64', asBase64(HARD_TOKEN)],
  ['in base64 after one byte', asBase64(`:${HARD_TOKEN}`)],
  ['in base64 of the header', asBase64(`Authorization: Bearer ${HARD_TOKEN}\r\n`)],
  ['in base64url', Buffer.from(`{"t":"~${HARD_TOKEN}"}`).toString('base64url')],
  ['in base64 of several lines', asBase64(HARD_TOKEN).replace(/.{10}/g, '$&\n')],
  ['in hex', Buffer.from(HARD_TOKEN).toString('hex')],
])('hides a text that repeats the credential %s', async (_how, body) => {
  const registry = await FakeRegistry.open();
  const url = parseRegistryUrl(registry.url);
  const client = new RegistryClient({ url, environmentId: 'env-1', auth: bearerAuth(HARD_TOKEN), env: {} });
  registry.answer = () => ({ status: 403, body });
  await expect(client.register(executorKey, signal)).rejects.toMatchObject({
    message: expect.stringMatching(/^the registry 127\.0\.0\.1:\d+ answered register with HTTP 403$/),
    code: null,
  });
});

test.each([
  ['below detail', JSON.stringify({ detail: { message: `no ${HARD_TOKEN}` } })],
  ['with escaped slashes', JSON.stringify({ error: { message: `no ${HARD_TOKEN}` } }).replaceAll('/', '\\/')],
  ['in JSON escapes', `{"error":{"message":"no ${hexEscaped(HARD_TOKEN, '\\u00')}"}}`],
])('replaces the credential %s', async (_how, body) => {
  const registry = await FakeRegistry.open();
  const url = parseRegistryUrl(registry.url);
  const client = new RegistryClient({ url, environmentId: 'env-1', auth: bearerAuth(HARD_TOKEN), env: {} });
  registry.answer = () => ({ status: 403, body });
  await expect(client.register(executorKey, signal)).rejects.toThrow(/HTTP 403 \(no \*\*\*\)$/);
});

test('does not show the credential before a renewal, nor other secret headers', async () => {
  const registry = await FakeRegistry.open();
  const url = parseRegistryUrl(registry.url);
  let token = 'first-token';
  const auth = {
    headers: () => ({
      authorization: `Bearer ${token}`,
      'x-api-key': 'other-secret',
      'chatgpt-account-id': 'acc',
    }),
    refreshAfterUnauthorized: async () => {
      token = 'second-token';
      return true;
    },
  };
  const client = new RegistryClient({ url, environmentId: 'env-1', auth, env: {} });
  for (const [text, shown] of [
    ['no first-token', 'no ***'],
    ['no second-token', 'no ***'],
    ['no other-secret', 'no ***'],
    ['no account acc', 'no account acc'],
  ] as const) {
    token = 'first-token';
    let asked = 0;
    registry.answer = () => (asked++ === 0 ? { status: 401, body: '' } : { status: 403, body: text });
    await expect(client.register(executorKey, signal)).rejects.toThrow(`HTTP 403 (${shown})`);
  }
});

test('does not show the signature of an assertion that the registry decoded', async () => {
  const registry = await FakeRegistry.open();
  const assertion = JSON.stringify({ agent_runtime_id: 'a', signature: 'c2lnbmF0dXJl/w==', task_id: 't' });
  const authorization = `AgentAssertion ${Buffer.from(assertion).toString('base64url')}`;
  const options = { url: parseRegistryUrl(registry.url), environmentId: 'env-1', env: {} };
  const client = new RegistryClient({ ...options, auth: { headers: () => ({ authorization }) } });
  registry.answer = () => ({ status: 403, body: { error: { message: `bad assertion ${assertion}` } } });
  await expect(client.register(executorKey, signal)).rejects.toThrow(
    /HTTP 403 \(bad assertion .*"signature":"\*\*\*"/,
  );
});

test('still retries an offline environment whose registry repeats the credential', async () => {
  const error = await failure({
    status: 409,
    body: { error: { code: 'environment_offline', message: 'token-1' } },
  });
  expect(error).toMatchObject({
    retryable: true,
    message: expect.stringMatching(/\(environment_offline: \*\*\*\)$/),
  });
});

describe('after HTTP 401', () => {
  /** Each renewal changes the token, unless it fails. */
  async function openRenewable(renewals: boolean[]) {
    const registry = await FakeRegistry.open();
    const refused: AuthHeaders[] = [];
    let token = 1;
    const auth: RegistryAuth = {
      headers: () => ({ authorization: `Bearer token-${token}` }),
      refreshAfterUnauthorized: async (headers) => {
        refused.push(headers);
        const renewed = renewals.shift() === true;
        if (renewed) token++;
        return renewed;
      },
    };
    const url = parseRegistryUrl(registry.url);
    const client = new RegistryClient({ url, environmentId: 'env-1', auth, env: {} });
    const sent = () => registry.asked.map(({ headers }) => headers.authorization);
    return { registry, client, refused, sent };
  }

  test('renews the credential and sends the request once more', async () => {
    const { registry, client, refused, sent } = await openRenewable([true, true]);
    registry.answer = ({ action, headers }) => {
      if (headers.authorization === 'Bearer token-1') return { status: 401, body: '' };
      return action === 'validate' ? { body: { valid: true } } : registry.registration();
    };
    await client.register(executorKey, signal);
    const claim = { streamId: 's', harnessKey, registrationId: 'r', authorization: 'a' };
    expect(await client.validate(claim, signal)).toBe(true);
    expect(sent()).toEqual(['Bearer token-1', 'Bearer token-2', 'Bearer token-2']);
    expect(refused).toEqual([{ authorization: 'Bearer token-1' }]);
  });

  test('does not retry twice', async () => {
    const { registry, client, refused } = await openRenewable([true, true]);
    registry.answer = () => ({ status: 401, body: '' });
    await expect(client.register(executorKey, signal)).rejects.toMatchObject({ status: 401 });
    expect([registry.asked.length, refused.length]).toEqual([2, 1]);
  });

  test.each([
    [401, false],
    [403, true],
    [500, true],
  ])('does not retry HTTP %i with a credential that can be renewed: %s', async (status, renewable) => {
    const { registry, client } = await openRenewable([renewable]);
    registry.answer = () => ({ status, body: '' });
    await expect(client.register(executorKey, signal)).rejects.toMatchObject({ status });
    expect(registry.asked).toHaveLength(1);
  });
});

test.each([
  [{ error: { code: 'x', message: 'wrong key token-1' } }, '(x: wrong key ***)'],
  [{ error: { code: 'token-1', message: 'no' } }, '(***: no)'],
  ['wrong key token-1', '(wrong key ***)'],
  // Truncation after the replacement: a part of the credential would be visible otherwise.
  [{ error: { message: `${'x'.repeat(296)}token-1` } }, `(${'x'.repeat(296)}***)`],
])('shows the reason of a 401 without the credential: %j', async (body, shown) => {
  const { message } = await failure({ status: 401, body });
  expect(message.endsWith(`HTTP 401 ${shown}`)).toBe(true);
});

test.each(['', 'two words', 'end\n'])('rejects %j as a token', (token) => {
  expect(() => bearerAuth(token)).toThrow(TypeError);
});
