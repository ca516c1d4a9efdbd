import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, isIP } from 'node:net';
import { checkServerIdentity, connect, TLSSocket } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { Authority } from '../../../../../src/network/proxy/interception/authority.ts';
import { LEAF_DAYS, LEAF_RENEWAL_DAYS, MAX_LEAVES } from '../../../../../src/network/proxy/limits.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** The certificate that a client sees that trusts `trusted` and connects to `host`. */
async function shown(
  authority: Authority,
  host: string,
  trusted = authority.certificate,
): Promise<X509Certificate> {
  const server = createServer((socket) => {
    const secured = new TLSSocket(socket, { isServer: true, secureContext: authority.contextFor(host) });
    secured.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect({
    port: (server.address() as AddressInfo).port,
    host: '127.0.0.1',
    ca: trusted,
    // Node 22.23 does not match any IPv6 address here, so the certificate itself is asked for addresses.
    checkServerIdentity: (_, certificate) =>
      isIP(host) !== 0 && new X509Certificate(certificate.raw).checkIP(host) !== undefined
        ? undefined
        : checkServerIdentity(host, certificate),
  });
  try {
    await once(client, 'secureConnect');
    return client.getPeerX509Certificate()!;
  } finally {
    client.destroy();
    server.close();
    await once(server, 'close');
  }
}

describe('Authority', () => {
  test('signs itself and hosts, but no other authority', async () => {
    const certificate = new X509Certificate((await Authority.create()).certificate);
    expect(certificate.ca).toBe(true);
    expect(certificate.verify(certificate.publicKey)).toBe(true);
    expect(certificate.checkIssued(certificate)).toBe(true);
    expect(certificate.subject).toMatch(/^CN=exec-server [0-9a-f]{8}$/);
  });

  test.each(['a.test', `${'a'.repeat(63)}.${'b'.repeat(63)}.test`, '127.0.0.1', '::1', '2001:db8::5'])(
    'issues a valid certificate for %s',
    async (host) => {
      const authority = await Authority.create();
      const leaf = await shown(authority, host);
      expect(leaf.ca).toBe(false);
      expect(leaf.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
      expect(leaf.checkIssued(new X509Certificate(authority.certificate))).toBe(true);
      expect(Date.parse(leaf.validFrom)).toBeLessThan(Date.now());
      expect(Date.parse(leaf.validTo)).toBeLessThanOrEqual(Date.now() + LEAF_DAYS * DAY_MS);
    },
  );

  test('is not trusted by clients of another authority', async () => {
    const [one, other] = await Promise.all([Authority.create(), Authority.create()]);
    await expect(shown(one, 'a.test', other.certificate)).rejects.toMatchObject({
      code: expect.stringMatching(/SIGN|ISSUER|VERIFY/),
    });
  });

  test('caches a limited number of certificates and renews old ones', async () => {
    let now = Date.now();
    const authority = await Authority.create(() => now);
    const first = authority.contextFor('a.test');
    expect(authority.contextFor('a.test')).toBe(first);
    now += LEAF_RENEWAL_DAYS * DAY_MS;
    const renewed = authority.contextFor('a.test');
    expect(renewed).not.toBe(first);
    const oldest = authority.contextFor('0.test');
    expect(authority.contextFor('a.test')).toBe(renewed);
    for (let index = 1; index < MAX_LEAVES; index++) authority.contextFor(`${index}.test`);
    expect(authority.size).toBe(MAX_LEAVES);
    expect(authority.contextFor('a.test')).toBe(renewed);
    expect(authority.contextFor('0.test')).not.toBe(oldest);
  });
});
