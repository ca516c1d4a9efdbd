import { describe, expect, test } from 'vitest';
import {
  ANY_HOST,
  hostPatterns,
  requireAddress,
  requireHost,
} from '../../../../src/network/http/host-policy.ts';

const NO_PRIVATE = { ...ANY_HOST, privateAddresses: false };

describe('host policy', () => {
  test('allows everything by default', () => {
    for (const url of ['http://127.0.0.1/', 'http://169.254.169.254/', 'http://[::1]/', 'http://x.example/'])
      expect(() => requireHost(ANY_HOST, new URL(url))).not.toThrow();
  });

  test.each([
    'http://127.0.0.1/',
    'http://127.1/',
    'http://0x7f.1/',
    'http://2130706433/',
    'http://0177.0.0.1/',
    'http://0/',
    'http://10.0.0.1/',
    'http://169.254.169.254/latest/meta-data',
    'http://192.168.1.1/',
    'http://172.16.0.1/',
    'http://100.64.0.1/',
    'http://[::1]/',
    'http://[::]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:a00:1]/',
    'http://[fe80::1]/',
    'http://[fd00::1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[2002:7f00:1::]/',
  ])('rejects %s without private addresses', (url) => {
    expect(() => requireHost(NO_PRIVATE, new URL(url))).toThrow('httpPrivateAddresses');
  });

  test('rejects names that resolve to private addresses', () => {
    expect(() => requireHost(NO_PRIVATE, new URL('http://inside.example/'))).not.toThrow();
    expect(() => requireAddress(NO_PRIVATE, 'inside.example', '10.0.0.1')).toThrow('inside.example');
    expect(() => requireAddress(NO_PRIVATE, 'inside.example', 'fe80::1%eth0')).toThrow();
    expect(() => requireAddress(NO_PRIVATE, 'outside.example', '1.1.1.1')).not.toThrow();
    expect(() => requireAddress(NO_PRIVATE, 'outside.example', '2606:4700::1')).not.toThrow();
  });

  test('allows hosts that are allowed and not denied', () => {
    const policy = {
      ...ANY_HOST,
      allowed: hostPatterns('a.example, *.b.example ,'),
      denied: hostPatterns('evil.b.example'),
    };
    const passes = (host: string) => {
      try {
        requireHost(policy, new URL(`https://${host}/`));
        return true;
      } catch {
        return false;
      }
    };
    expect(['a.example', 'A.EXAMPLE.', 'x.b.example'].map(passes)).toEqual([true, true, true]);
    expect(['b.a.example', 'b.example', 'evil.b.example', '1.2.3.4'].map(passes)).not.toContain(true);
  });

  test.each(['http://1.2.3.4/', 'http://0x1020304/', 'http://[::ffff:1.2.3.4]/', 'http://[::ffff:102:304]/'])(
    'also denies an address written as %s',
    (url) => {
      const policy = { ...ANY_HOST, denied: hostPatterns('1.2.3.4') };
      expect(() => requireHost(policy, new URL(url))).toThrow('httpDeniedHosts');
    },
  );

  test.each(['1.2.3.4', '::ffff:1.2.3.4', '::ffff:102:304', 'fe80::1%eth0'])(
    'denies names that resolve to a denied address as %s',
    (address) => {
      const policy = { ...ANY_HOST, denied: hostPatterns('1.2.3.4, fe80::1, a.example') };
      expect(() => requireAddress(policy, 'b.example', address)).toThrow('httpDeniedHosts');
      expect(() => requireAddress(policy, 'b.example', '1.2.3.5')).not.toThrow();
    },
  );

  test('parses an empty list as null, and rejects invalid patterns', () => {
    expect(hostPatterns(' , ')).toBeNull();
    expect(() => hostPatterns('a b')).toThrow();
  });
});
