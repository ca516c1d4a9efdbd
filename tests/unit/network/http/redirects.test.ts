import { describe, expect, test } from 'vitest';
import { nextHop } from '../../../../src/network/http/redirects.ts';
import type { Hop } from '../../../../src/network/http/request.ts';

function hop(changes: Partial<Hop> = {}): Hop {
  return {
    method: 'POST',
    url: new URL('https://a.example/p?q'),
    fields: [],
    body: Buffer.from('b'),
    ...changes,
  };
}

function names(next: Hop | null): string[] {
  return (next?.fields ?? []).map(({ name }) => name);
}

describe('nextHop', () => {
  test.each([
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [303, 'POST', 'GET'],
    [303, 'PUT', 'GET'],
    [303, 'HEAD', 'HEAD'],
    [301, 'PUT', 'PUT'],
    [302, 'DELETE', 'DELETE'],
    [307, 'POST', 'POST'],
    [308, 'PATCH', 'PATCH'],
  ])('with %i turns %s into %s', (status, method, expected) => {
    const next = nextHop(hop({ method }), status, '/next');
    expect(next?.method).toBe(expected);
    expect(next?.body === null).toBe(status === 303 || method !== expected);
    expect(next?.url.href).toBe('https://a.example/next');
  });

  test('removes headers that describe the dropped body', () => {
    const fields = ['content-type', 'content-encoding', 'content-length', 'transfer-encoding', 'x-k'].map(
      (name) => ({ name, value: 'v' }),
    );
    expect(names(nextHop(hop({ fields }), 303, '/next'))).toEqual(['x-k', 'referer']);
    expect(names(nextHop(hop({ fields }), 307, '/next'))).toContain('content-type');
  });

  test.each([
    ['https://a.example:444/', false],
    ['https://b.example/', false],
    ['http://a.example/', false],
    ['https://a.example:443/other', true],
  ])('to %s keeps credentials: %s', (location, kept) => {
    const fields = ['authorization', 'cookie', 'cookie2', 'proxy-authorization', 'www-authenticate'].map(
      (name) => ({ name, value: 'v' }),
    );
    const api = { name: 'x-api-key', value: 'k' };
    const next = names(nextHop(hop({ fields: [...fields, api] }), 307, location));
    expect(next.includes('authorization')).toBe(kept);
    expect(next.filter((name) => name.startsWith('cookie')).length).toBe(kept ? 2 : 0);
    expect(next).toContain('x-api-key');
  });

  test('sends the page as referrer to the same server, the origin to others, and nothing from https to http', () => {
    const referer = (location: string) =>
      nextHop(hop(), 307, location)?.fields.find(({ name }) => name === 'referer')?.value;
    expect(referer('/next')).toBe('https://a.example/p?q');
    expect(referer('https://b.example/')).toBe('https://a.example/');
    expect(referer('http://b.example/')).toBeUndefined();
  });

  test('drops user, password and fragment of the target', () => {
    expect(nextHop(hop(), 307, 'https://u:p@b.example/x#y')?.url.href).toBe('https://b.example/x');
  });

  test('returns null without a valid target or with another status', () => {
    expect(nextHop(hop(), 302, undefined)).toBeNull();
    expect(nextHop(hop(), 302, 'http://[bad')).toBeNull();
    for (const status of [200, 300, 304, 305, 306]) expect(nextHop(hop(), status, '/next')).toBeNull();
  });

  test('rejects a target that is not http or https', () => {
    expect(() => nextHop(hop(), 302, 'file:///etc/passwd')).toThrow(
      'http/request failed: redirect target uses unsupported URL scheme: file',
    );
  });
});
