import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { CredentialFrames } from '../../../../src/relay/executor/credential-frames.ts';
import { MAX_CREDENTIAL_LINE_BYTES } from '../../../../src/relay/limits.ts';
import { waitFor } from '../../../support/wait-for.ts';

const NOW_MS = 1_000_000;
const GOOD = { version: 1, environment_id: 'env-1', token: 'token-1', expires_at: 1_001 };

function open(now = () => NOW_MS) {
  const input = new PassThrough();
  return { input, credentials: new CredentialFrames(input, 'env-1', now) };
}

const line = (frame: unknown) => `${JSON.stringify(frame)}\n`;

test('waits for the first credential, replaces it with later ones, and ends with the input', async () => {
  const { input, credentials } = open();
  const text = line(GOOD);
  input.write(text.slice(0, 10));
  input.write(text.slice(10));
  expect(await credentials.ready).toBe(true);
  expect(credentials.headers()).toEqual({ authorization: 'Bearer token-1' });
  expect(credentials.revealedIn('?sig=token-1&x')).toBe(true);
  input.write(line({ ...GOOD, token: 'token-2' }));
  await waitFor('the second', () => credentials.headers().authorization === 'Bearer token-2');
  expect(credentials.revealedIn('token-1')).toBe(false);
  input.end();
  await credentials.ended;
});

test('fails without a request when the credential has expired', async () => {
  let now = NOW_MS;
  const { input, credentials } = open(() => now);
  input.write(line(GOOD));
  await credentials.ready;
  now = 1_001_000;
  expect(() => credentials.headers()).toThrow(
    expect.objectContaining({ name: 'RegistryError', retryable: true }),
  );
});

test('reports an input that ends before the first credential', async () => {
  const { input, credentials } = open();
  input.end();
  expect(await credentials.ready).toBe(false);
});

test.each([
  ['{', 'it is not JSON'],
  [line([]), 'it must have exactly'],
  [line(null), 'it must have exactly'],
  [line({ ...GOOD, more: 1 }), 'it must have exactly environment_id, expires_at, token, version'],
  [line({ ...GOOD, version: 2 }), 'its version is not 1'],
  [line({ ...GOOD, environment_id: 'x' }), 'it is for another environment'],
  [line({ ...GOOD, token: 5 }), 'its token is not a string'],
  [line({ ...GOOD, token: 'two words' }), 'a token is empty or contains invalid characters'],
  [line({ ...GOOD, expires_at: '2030-01-01' }), 'expires_at is not a whole number of seconds'],
  [line({ ...GOOD, expires_at: 1_000 }), 'it has expired'],
  [JSON.stringify(GOOD), 'it does not end with a line feed'],
  ['x'.repeat(MAX_CREDENTIAL_LINE_BYTES + 1), 'a line is longer than'],
])('rejects %j', async (text, why) => {
  const { input, credentials } = open();
  input.end(text === '{' ? '{\n' : text);
  await expect(credentials.ended).rejects.toThrow(why);
  await expect(credentials.ready).rejects.toMatchObject({ name: 'CredentialError' });
});
