import { describe, expect, test } from 'vitest';
import { firstHop, type HttpRequest, shownUrl, wireFields } from '../../../../src/network/http/request.ts';

function request(changes: Partial<HttpRequest> = {}): HttpRequest {
  const plain = { method: 'GET', url: 'http://a.example:81/p?q#f', headers: [], body: null };
  return { ...plain, redirect: 'follow', timeoutMs: null, ...changes };
}

function sent(changes: Partial<HttpRequest> = {}): string[] {
  return wireFields(firstHop(request(changes), {}, 'any')).map(({ name, value }) => `${name}: ${value}`);
}

const BODY = new TextEncoder().encode('body');

describe('wireFields', () => {
  test('adds what every request needs', () => {
    expect(sent()).toEqual(['accept: */*', 'host: a.example:81']);
    expect(sent({ method: 'POST', body: BODY, headers: [{ name: 'X', value: 'y' }] })).toEqual([
      'x: y',
      'accept: */*',
      'host: a.example:81',
      'content-length: 4',
    ]);
    expect(sent({ method: 'POST', body: new Uint8Array(0) })).not.toContain('content-length: 0');
    expect(sent({ url: 'https://a.example:443/' })).toContain('host: a.example');
  });

  test('has one correct content-length', () => {
    const withLength = (...values: string[]) => values.map((value) => ({ name: 'Content-Length', value }));
    expect(sent({ body: BODY, headers: withLength('4') })).toContain('content-length: 4');
    for (const headers of [withLength('2'), withLength('5'), withLength('4', '4'), withLength('+4')]) {
      expect(() => sent({ body: BODY, headers })).toThrow('content-length contradicts the body');
    }
    expect(() => sent({ headers: withLength('1') })).toThrow('content-length contradicts the body');
  });

  test('has no content-length with a transfer-encoding, and neither without a body', () => {
    const headers = [
      { name: 'Content-Length', value: '99' },
      { name: 'Transfer-Encoding', value: 'gzip' },
    ];
    expect(sent({ body: BODY, headers })).toEqual([
      'transfer-encoding: gzip, chunked',
      'accept: */*',
      'host: a.example:81',
    ]);
    expect(sent({ headers })).toEqual(['accept: */*', 'host: a.example:81']);
  });

  test('sends the credentials of the URL', () => {
    expect(sent({ url: 'http://us%20er:p%40ss@h/' })[0]).toBe('authorization: Basic dXMgZXI6cEBzcw==');
    expect(sent({ url: 'http://u@h/' })[0]).toBe('authorization: Basic dTo=');
    const headers = [{ name: 'Authorization', value: 'mine' }];
    expect(sent({ url: 'http://u:p@h/', headers })).toEqual([
      'authorization: mine',
      'accept: */*',
      'host: h',
    ]);
  });
});

test('shows a URL without user, query and fragment', () => {
  const { url } = firstHop(request({ url: 'http://u:p@a.example:81/path?secret#part' }), {}, 'any');
  expect(url.href).toBe('http://a.example:81/path?secret');
  expect(shownUrl(url)).toBe('http://a.example:81/path');
});

test.each([
  [{ method: 'A B' }, 'http/request method is invalid: invalid HTTP method'],
  [{ url: 'nope' }, 'http/request url is invalid: '],
  [{ url: 'file:///etc/passwd' }, 'http/request only supports http and https URLs, got file'],
])('rejects %j', (changes, problem) => {
  expect(() => firstHop(request(changes), {}, 'any')).toThrow(problem);
});
