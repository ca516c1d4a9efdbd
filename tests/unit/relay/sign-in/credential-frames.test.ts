import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { MAX_CREDENTIAL_LINE_BYTES } from '../../../../src/relay/limits.ts';
import { CredentialFrames } from '../../../../src/relay/sign-in/credential-frames.ts';
import { waitFor } from '../../../support/wait-for.ts';

const NOW_MS: number = 1_000_000;
const GOOD = { version: 1, environment_id: 'env-1', token: 'token-1', expires_at: 1_001 };

function open({ now = () => NOW_MS, firstMs = 30_000 } = {}) {
  const input = new PassThrough();
  return { input, credentials: new CredentialFrames(input, 'env-1', { now, firstMs }) };
}

const line = (frame: unknown) => `${JSON.stringify(frame)}\n`;

test('waits for the first credential, replaces it with later ones, and ends with the input', async () => {
  const { input, credentials } = open();
  const text = line(GOOD);
  input.write(text.slice(0, 10));
  input.write(text.slice(10));
  await credentials.ready;
  expect(credentials.headers()).toEqual({ authorization: 'Bearer token-1' });
  for (const text of ['?sig=token-1&x', 'token%2d1', 'token\\u002d1', 'dG9rZW4tMQ==']) {
    expect(credentials.revealedIn(text)).toBe(true);
  }
  input.write(line({ ...GOOD, token: 'token-2' }));
  await waitFor('the second', () => credentials.headers().authorization === 'Bearer token-2');
  expect(credentials.revealedIn('token-1')).toBe(false);
  input.end();
  await credentials.ended;
});

test('fails without a request when the credential has expired', async () => {
  let now = NOW_MS;
  const { input, credentials } = open({ now: () => now });
  input.write(line(GOOD));
  await credentials.ready;
  now = 1_001_000;
  expect(() => credentials.headers()).toThrow(
    expect.objectContaining({ name: 'RegistryError', retryable: true }),
  );
});

test('rejects an input that ends before the first credential', async () => {
  const { input, credentials } = open();
  input.end();
  await expect(credentials.ready).rejects.toThrow('stdin ended before a credential arrived');
});

test('rejects when the first credential does not arrive in time', async () => {
  const { credentials } = open({ firstMs: 20 });
  await expect(credentials.ready).rejects.toThrow('no credential arrived on stdin within 0.02 s');
});

test('uses the last credential of several in one write', async () => {
  const { input, credentials } = open();
  input.write(line(GOOD) + line({ ...GOOD, token: 'token-2' }));
  await credentials.ready;
  expect(credentials.headers()).toEqual({ authorization: 'Bearer token-2' });
});

test.each([
  ['any order of keys', '{"token":"t-1","version":1,"expires_at":1001,"environment_id":"env-1"}\n'],
  ['blanks', ' { "version" : 1 , "environment_id":"env-1","token":"t-1","expires_at":1001 } \t\n'],
  ['a carriage return', '{"version":1,"environment_id":"env-1","token":"t-1","expires_at":1001}\r\n'],
])('accepts %s', async (_what, text) => {
  const { input, credentials } = open();
  input.write(text);
  await credentials.ready;
  expect(credentials.headers()).toEqual({ authorization: 'Bearer t-1' });
});

test('limits a line with its line feed to 16 KiB', async () => {
  const padded = (bytes: number) => `${JSON.stringify(GOOD).padEnd(bytes - 1)}\n`;
  const { input, credentials } = open();
  input.write(padded(16_384));
  await credentials.ready;
  input.write(padded(16_385));
  await expect(credentials.ended).rejects.toThrow('a line is longer than 16383 bytes');
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
  ['{"version":1,"version":1,"environment_id":"env-1","token":"t","expires_at":1001}\n', 'four members'],
  ['{"version":1.0,"environment_id":"env-1","token":"t","expires_at":1001}\n', 'four members'],
  ['{"version":1,"environment_id":"env-1","token":"t","expires_at":1.001e3}\n', 'four members'],
  [line({ ...GOOD, expires_at: -1 }), 'four members'],
  [`${line(GOOD).trim()} {}\n`, 'it is not JSON'],
  ['\n', 'it is not JSON'],
  [`\ufeff${line(GOOD)}`, 'it is not JSON'],
  [JSON.stringify(GOOD), 'it does not end with a line feed'],
  ['x'.repeat(MAX_CREDENTIAL_LINE_BYTES + 1), 'a line is longer than'],
])('rejects %j', async (text, why) => {
  const { input, credentials } = open();
  input.end(text === '{' ? '{\n' : text);
  await expect(credentials.ended).rejects.toThrow(why);
  await expect(credentials.ready).rejects.toMatchObject({ name: 'CredentialError' });
});
