import { describe, expect, test } from 'vitest';
import { NetworkError } from '../../../../src/network/errors.ts';
import { isOwnAddress, isPublicAddress } from '../../../../src/network/proxy/addresses.ts';
import { parseAuthority, parseHost } from '../../../../src/network/proxy/host.ts';
import { HostPatterns } from '../../../../src/network/proxy/host-patterns.ts';
import { HostPolicy } from '../../../../src/network/proxy/host-policy.ts';
import { MAX_HOST_BYTES, MAX_PATTERN_LENGTH, MAX_PATTERNS } from '../../../../src/network/proxy/limits.ts';

describe('hosts', () => {
  test.each([
    ['Example.COM.', 'example.com', null],
    ['a_b.test', 'a_b.test', null],
    ['127.0.0.1', '127.0.0.1', '127.0.0.1'],
    ['127.0.0.1.', '127.0.0.1', '127.0.0.1'],
    ['127.1', '127.1', '127.0.0.1'],
    ['0x7f.1', '0x7f.1', '127.0.0.1'],
    ['0x7f000001', '0x7f000001', '127.0.0.1'],
    ['2130706433', '2130706433', '127.0.0.1'],
    ['0177.0.0.1', '0177.0.0.1', '127.0.0.1'],
    ['0', '0', '0.0.0.0'],
    ['999.1.1.1', '999.1.1.1', null],
    ['[::1]', '::1', '::1'],
    ['::1', '::1', '::1'],
    ['[0:0:0:0:0:0:0:1]', '0:0:0:0:0:0:0:1', '::1'],
    ['[::FFFF:127.0.0.1]', '::ffff:127.0.0.1', '::ffff:7f00:1'],
  ])('parses the host %s', (text, name, address) => {
    expect(parseHost(text)).toEqual({ name, address });
  });

  test.each([
    '',
    '.',
    'a..b',
    '.a',
    'a b',
    'a/b',
    'a@b',
    'a%00b',
    '[::1',
    '[fe80::1%25lo]',
    '[a]',
    'é.test',
    'a\nb',
    'a#b',
    'x'.repeat(MAX_HOST_BYTES + 1),
  ])('rejects the host %j', (text) => {
    expect(parseHost(text)).toBeNull();
  });

  test.each([
    ['a:1', 'a', 1],
    ['[::1]:65535', '::1', 65_535],
    ['a', 'a', 80],
  ])('parses the authority %s', (text, name, port) => {
    expect(parseAuthority(text, 80)).toMatchObject({ host: { name }, port });
  });

  test.each(['a:', 'a:0', 'a:65536', 'a:-1', 'a:1x', '::1:80', 'u@a:1', 'a:1:2'])(
    'rejects the authority %s',
    (text) => {
      expect(parseAuthority(text, 80)).toBeNull();
    },
  );

  test('requires a port without a default', () => {
    expect(parseAuthority('a', null)).toBeNull();
  });
});

describe('addresses', () => {
  test.each([
    ...[
      '0.0.0.0',
      '10.1.2.3',
      '100.64.0.1',
      '127.0.0.1',
      '169.254.169.254',
      '172.31.0.1',
      '192.0.0.1',
      '192.0.2.1',
      '192.168.1.1',
    ],
    ...['198.18.0.1', '198.51.100.1', '203.0.113.1', '224.0.0.1', '240.0.0.1', '255.255.255.255'],
    ...[
      '::',
      '::1',
      'fc00::1',
      'fe80::1',
      'fec0::1',
      'ff02::1',
      '::ffff:127.0.0.1',
      '::ffff:7f00:1',
      '::7f00:1',
      '100::1',
    ],
    ...[
      '64:ff9b::7f00:1',
      '64:ff9b::10.0.0.1',
      '64:ff9b:1::1',
      '2002:7f00:1::',
      '2001::1',
      '2001:db8::1',
      '3fff::1',
    ],
  ])('%s is not public', (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  test.each([
    '1.1.1.1',
    '172.32.0.1',
    '100.128.0.1',
    '198.20.0.1',
    '2606:4700::1111',
    '::ffff:1.1.1.1',
    '::ffff:101:101',
    '64:ff9b::101:101',
  ])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  test.each(['127.0.0.1', '127.8.8.8', '0.0.0.0', '::1', '::', '::ffff:7f00:1'])(
    '%s is this machine',
    (address) => {
      expect(isOwnAddress(address)).toBe(true);
    },
  );

  test('an address elsewhere is not this machine', () => {
    expect(isOwnAddress('203.0.113.77')).toBe(false);
  });
});

describe('patterns', () => {
  const covers = (pattern: string, host: string) => new HostPatterns([pattern]).covers(parseHost(host)!);

  test.each([
    ['example.com', 'EXAMPLE.com.'],
    ['Example.com.', 'example.com'],
    ['example.com:443', 'example.com'],
    ['*.example.com', 'a.example.com'],
    ['*.example.com', 'a.b.example.com'],
    ['**.example.com', 'example.com'],
    ['**.example.com', 'a.b.example.com'],
    ['*', 'anything.test'],
    ['[*]', 'anything.test'],
    ['**.*', 'anything'],
    ['reg*.x.com', 'reg.y.x.com'],
    ['reg*.x.com', 'reg.x.com'],
    ['a?c.test', 'abc.test'],
    ['a.*', 'a.anything.test'],
    ['[::1]', '::1'],
    ['::1', '[0:0::1]'],
    ['1.0.0.1', '1.1'],
    ['exämple.com', 'xn--exmple-cua.com'],
  ])('%s matches %s', (pattern, host) => {
    expect(covers(pattern, host)).toBe(true);
  });

  test.each([
    ['example.com', 'a.example.com'],
    ['example.com', 'example.com.evil.test'],
    ['example.com', 'notexample.com'],
    ['*.example.com', 'example.com'],
    ['*.example.com', 'evilexample.com'],
    ['**.example.com', 'evilexample.com'],
    ['**.example.com', 'example.com.evil.test'],
    ['reg*.x.com', 'xreg.x.com'],
    ['a?c.test', 'ac.test'],
    ['a.b', 'axb'],
  ])('%s does not match %s', (pattern, host) => {
    expect(covers(pattern, host)).toBe(false);
  });

  test.each([
    '',
    '  ',
    '*.',
    '**.',
    '**',
    '*.**',
    'a.**.b',
    'a b',
    'http://x.y',
    'x.y/',
    '[',
    '[a]b.c',
    '{a,b}.c',
    'a,b',
    'a@b',
    'x'.repeat(MAX_PATTERN_LENGTH + 1),
  ])('rejects the pattern %j', (pattern) => {
    expect(() => new HostPatterns([pattern])).toThrow(NetworkError);
  });

  test('matches a pattern full of wildcards quickly', () => {
    const pattern = `${'*a'.repeat(100)}b`;
    expect(covers(pattern, 'a'.repeat(250))).toBe(false);
    expect(covers(pattern, `${'a'.repeat(249)}b`)).toBe(true);
  });

  test('limits the number of patterns', () => {
    const patterns = Array.from({ length: MAX_PATTERNS }, (_, index) => `h${index}.test`);
    expect(new HostPatterns(patterns).covers(parseHost('h7.test')!)).toBe(true);
    expect(() => new HostPatterns([...patterns, 'one.more'])).toThrow(NetworkError);
    const domains = Array.from({ length: MAX_PATTERNS }, (_, index) => `*.d${index}.test`);
    expect(new HostPatterns(domains).covers(parseHost('a.b.d4095.test')!)).toBe(true);
    expect(new HostPatterns(domains).covers(parseHost('d4095.test')!)).toBe(false);
    const wild = Array.from(
      { length: 64 },
      (_, index) => `a*${'x'.repeat(252)}${String(index).padStart(2, '0')}`,
    );
    expect(new HostPatterns(wild).covers(parseHost('b.test')!)).toBe(false);
    expect(() => new HostPatterns([...wild, 'a*'])).toThrow('more than 16384 characters in all');
  });
});

describe('policy', () => {
  const judge = (
    domains: Record<string, 'allow' | 'deny' | 'none'>,
    host: string,
    rest: { reviewDomains?: string[]; allowLocalBinding?: boolean } = {},
  ) =>
    new HostPolicy({ domains, reviewDomains: [], allowLocalBinding: false, ...rest }).evaluate(
      parseHost(host)!,
    );

  test.each([
    ['denial wins over permission', { '*': 'allow', 'b.test': 'deny' }, 'b.test', 'denied'],
    ['denial holds for every spelling of an address', { '*': 'allow', '1.0.0.1': 'deny' }, '1.1', 'denied'],
    [
      'denial holds for an address as IPv6',
      { '*': 'allow', '1.0.0.1': 'deny' },
      '[::ffff:1.0.0.1]',
      'denied',
    ],
    ['what is not listed is not allowed', { 'a.test': 'allow' }, 'b.test', 'not_allowed'],
    ['nothing is allowed without a list', {}, 'a.test', 'not_allowed'],
    ['`none` allows nothing', { 'a.test': 'none' }, 'a.test', 'not_allowed'],
    ['a wildcard unlocks no local address', { '*': 'allow' }, '127.0.0.1', 'not_allowed_local'],
    ['nor one in another spelling', { '*': 'allow' }, '0x7f.1', 'not_allowed_local'],
    ['nor localhost', { '*': 'allow' }, 'localhost', 'not_allowed_local'],
    ['localhost is not its address', { localhost: 'allow' }, '127.0.0.1', 'not_allowed_local'],
    ['a local address comes before an empty list', {}, '10.0.0.1', 'not_allowed_local'],
    ['denial comes before being local', { '127.0.0.1': 'deny' }, '127.0.0.1', 'denied'],
  ] as const)('%s', (_name, domains, host, reason) => {
    expect(judge(domains, host)).toEqual({ open: false, reason });
  });

  test.each([
    ['an allowed name', { 'a.test': 'allow' }, 'a.test', false],
    ['a local address by its own name', { '127.0.0.1': 'allow' }, '127.0.0.1', true],
    ['localhost by its own name', { localhost: 'allow' }, 'LocalHost.', true],
    ['a public address', { '*': 'allow' }, '1.1.1.1', false],
  ] as const)('%s is open', (_name, domains, host, trusted) => {
    expect(judge(domains, host)).toEqual({ open: true, trusted });
  });

  test('does not allow a reviewed host without a request', () => {
    expect(judge({ '*': 'allow' }, 'a.test', { reviewDomains: ['**.test'] })).toEqual({
      open: false,
      reason: 'not_allowed',
    });
  });

  test('requires a pattern for local addresses even if they are allowed', () => {
    expect(judge({}, '127.0.0.1', { allowLocalBinding: true })).toEqual({
      open: false,
      reason: 'not_allowed',
    });
    expect(judge({ '*': 'allow' }, '127.0.0.1', { allowLocalBinding: true })).toMatchObject({ open: true });
  });

  test.each(['*', '**.*', '[*]', '*:80'])('rejects denying %s', (pattern) => {
    expect(() => judge({ [pattern]: 'deny' }, 'a.test')).toThrow(NetworkError);
  });
});
