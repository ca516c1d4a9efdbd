import { expect, test } from 'vitest';
import { type SignableRequest, signRequest } from '../../../../src/relay/direct/sigv4.ts';

const KEYS = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  sessionToken: null,
};

function sign(request: SignableRequest, keys: typeof KEYS | { sessionToken: string } = KEYS) {
  const scope = { region: 'us-west-2', service: 'execute-api' };
  return signRequest(request, { ...KEYS, ...keys }, scope, new Date('2026-11-17T06:34:15.987Z'));
}

function signatureOf(url: string): string | undefined {
  return /Signature=(\w+)$/.exec(sign({ method: 'GET', url: new URL(url) }).authorization!)?.[1];
}

const REGISTER: SignableRequest = {
  method: 'POST',
  url: new URL('http://127.0.0.1:43503/cloud/environment/env-1/direct/register'),
  headers: { 'content-type': 'application/json' },
  body: '{"transport":"direct_jsonrpc_v1"}',
};

test('signs a registration as codex 0.166 does', () => {
  expect(sign(REGISTER)).toEqual({
    'x-amz-date': '20261117T063415Z',
    authorization:
      'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261117/us-west-2/execute-api/aws4_request, ' +
      'SignedHeaders=content-type;host;x-amz-date, ' +
      'Signature=f69caf0aeda7e1e70a74ee86f672f0e72a1506b8f3467bab879f3fdb95a0e991',
  });
});

test('signs an upgrade as codex 0.166 does, whatever the order and escapes of its query', () => {
  const signature = '04ec9e4ba3fd09d19f2475ae4a68dd457f4feac75c2d0751b74a5d8069794a32';
  expect(signatureOf('ws://127.0.0.1:43503/direct/ws?b=2&a=1%20x&sig=a/b')).toBe(signature);
  expect(signatureOf('ws://127.0.0.1:43503/direct/ws?a=1+x&sig=a%2Fb&b=2')).toBe(signature);
  expect(signatureOf('ws://127.0.0.1:43503//direct//ws?b=2&a=1%20x&sig=a/b')).toBe(signature);
  expect(signatureOf('ws://127.0.0.1:43503/direct/ws?b=2&a=1%20y&sig=a/b')).not.toBe(signature);
});

test('signs as the example of AWS does', () => {
  // "get-vanilla" of the AWS Signature Version 4 test suite.
  const signed = signRequest(
    { method: 'GET', url: new URL('https://example.amazonaws.com/') },
    KEYS,
    { region: 'us-east-1', service: 'service' },
    new Date('2015-08-30T12:36:00Z'),
  );
  expect(signed.authorization).toMatch(
    /Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31$/,
  );
});

test('sends and signs the token of temporary keys', () => {
  const signed = sign(REGISTER, { sessionToken: 'token' });
  expect(signed['x-amz-security-token']).toBe('token');
  expect(signed.authorization).toContain('SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,');
});

test('escapes the path a second time', () => {
  expect(signatureOf('wss://h/a%20b')).not.toBe(signatureOf('wss://h/a%2520b'));
  expect(signatureOf('wss://h/a+b')).not.toBe(signatureOf('wss://h/a%2Bb'));
});
