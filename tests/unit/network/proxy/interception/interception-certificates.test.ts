import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { InterceptionCertificates } from '../../../../../src/network/proxy/interception/interception-certificates.ts';
import { NetworkProxy } from '../../../../../src/network/proxy/network-proxy.ts';
import { ProxyResources } from '../../../../../src/network/proxy/proxy-resources.ts';
import { type CertificateFiles, Certificates } from '../../../../support/certificates.ts';
import { waitFor } from '../../../../support/wait-for.ts';
import { settings } from '../proxy-fixture.ts';

let home = '';
let certificates: Certificates;
let corporate: CertificateFiles;

beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'interception-'));
  certificates = new Certificates();
  corporate = certificates.authority('corporate');
});
beforeEach(() => rmSync(join(home, 'proxy'), { recursive: true, force: true }));
afterAll(() => {
  rmSync(home, { recursive: true, force: true });
  certificates.remove();
});

function hostWith(env: Record<string, string> = {}) {
  const { bundlePath, env: all } = new ProxyResources(async () => [], { CODEX_HOME: home, ...env });
  return { host: new InterceptionCertificates(bundlePath, all), bundlePath };
}

describe('the CA bundle', () => {
  test('exists while a lease is held, and leaves nothing behind', async () => {
    const { host, bundlePath } = hostWith();
    const [one, two] = await Promise.all([host.acquire(), host.acquire()]);
    expect(dirname(dirname(bundlePath))).toBe(join(home, 'proxy'));
    expect(statSync(bundlePath).mode & 0o777).toBe(0o644 & ~process.umask());
    expect(statSync(dirname(bundlePath)).mode & 0o777).toBe(0o700);
    one.release();
    expect(existsSync(bundlePath)).toBe(true);
    two.release();
    await waitFor('the file to go', () => readdirSync(home).length === 0);
  });

  test('comes back with the same authority for a later lease', async () => {
    const { host, bundlePath } = hostWith();
    const first = await host.acquire();
    first.release();
    const second = await host.acquire();
    expect(second.authority).toBe(first.authority);
    expect(readFileSync(bundlePath, 'utf8')).toContain(second.authority.certificate.trim());
    second.release();
    await waitFor('the file to go', () => readdirSync(home).length === 0);
  });

  test('contains the certificates of the system, of the configuration and of the authority, and no key', async () => {
    const both = join(home, 'with-key.pem');
    writeFileSync(both, readFileSync(corporate.key, 'utf8') + readFileSync(corporate.cert, 'utf8'));
    const { host, bundlePath } = hostWith({ SSL_CERT_FILE: both });
    const lease = await host.acquire();
    const text = readFileSync(bundlePath, 'utf8');
    expect(text).toContain(readFileSync(corporate.cert, 'utf8').trim());
    expect(text).toContain(lease.authority.certificate.trim());
    expect(text.match(/BEGIN CERTIFICATE/g)?.length).toBeGreaterThan(50);
    expect(text).not.toContain('PRIVATE');
    expect(readdirSync(dirname(bundlePath))).toEqual(['ca-bundle.pem']);
    lease.release();
    rmSync(both);
    await waitFor('the file to go', () => readdirSync(home).length === 0);
  });

  test('is named by each variable that the program does not set itself', async () => {
    const { host, bundlePath } = hostWith({ CURL_CA_BUNDLE: '/server.pem' });
    const lease = await host.acquire();
    const variables = lease.variables({
      SSL_CERT_FILE: '/own.pem',
      PIP_CERT: '',
      CURL_CA_BUNDLE: '/server.pem',
    });
    expect(Object.keys(variables)).toHaveLength(10);
    expect(variables).toMatchObject({
      PIP_CERT: bundlePath,
      CURL_CA_BUNDLE: bundlePath,
      GIT_SSL_CAINFO: bundlePath,
    });
    expect(variables).not.toHaveProperty('SSL_CERT_FILE');
    lease.release();
    await waitFor('the file to go', () => readdirSync(home).length === 0);
  });
});

describe('acquire rejects', () => {
  test('while a CA file cannot be read', async () => {
    const missing = join(home, 'later.pem');
    const { host, bundlePath } = hostWith({ SSL_CERT_FILE: missing });
    await expect(host.acquire()).rejects.toMatchObject({
      kind: 'failed',
      message: expect.stringMatching(/^networkProxy: credentialMasking: Failed to read CA certificate file/),
    });
    expect(existsSync(dirname(bundlePath))).toBe(false);
    writeFileSync(missing, readFileSync(corporate.cert));
    const lease = await host.acquire();
    expect(existsSync(bundlePath)).toBe(true);
    lease.release();
    rmSync(missing);
    await waitFor('the file to go', () => readdirSync(home).length === 0);
  });

  test.each([
    ['changed', (path: string) => appendFileSync(path, 'x')],
    ['replaced by the same', (path: string) => writeFileSync(path, readFileSync(path))],
    ['removed', (path: string) => rmSync(path)],
    [
      'replaced by a link',
      (path: string) => {
        renameSync(path, `${path}.old`);
        symlinkSync(`${path}.old`, path);
      },
    ],
    [
      'replaced with its folder',
      (path: string) => {
        renameSync(dirname(path), join(home, 'moved'));
        mkdirSync(dirname(path));
        writeFileSync(path, readFileSync(join(home, 'moved', 'ca-bundle.pem')));
      },
    ],
  ])('after the file was %s, until all leases are released', async (_name, change) => {
    const { host, bundlePath } = hostWith();
    const first = await host.acquire();
    change(bundlePath);
    await expect(host.acquire()).rejects.toMatchObject({
      kind: 'failed',
      message: expect.stringContaining('was changed or removed by another process'),
    });
    first.release();
    const second = await host.acquire();
    expect(readFileSync(bundlePath, 'utf8')).toContain(second.authority.certificate.trim());
    second.release();
    rmSync(join(home, 'moved'), { recursive: true, force: true });
    await waitFor('the file to go', () => readdirSync(home).length === 0);
  });

  test('when the folder cannot be created', async () => {
    const blocked = join(home, 'file');
    writeFileSync(blocked, '');
    const { host } = hostWith({ CODEX_HOME: blocked });
    await expect(host.acquire()).rejects.toMatchObject({
      kind: 'failed',
      message: expect.stringContaining('ENOTDIR'),
    });
    rmSync(blocked);
  });

  test('a masking proxy without a lease', async () => {
    const peer = { decided: () => {}, ask: null };
    const options = {
      settings: settings({ credentialMasking: true }),
      resources: new ProxyResources(),
      owner: {},
      peer,
    };
    await expect(NetworkProxy.open(options)).rejects.toMatchObject({ name: 'NetworkError', kind: 'failed' });
    expect(() => NetworkProxy.sandboxed(options)).toThrow('credentials cannot be masked here');
  });
});

test('removes the files of a dead server', async () => {
  const { host, bundlePath } = hostWith();
  const [, , place] = basename(dirname(bundlePath)).split('-');
  const orphan = join(home, 'proxy', `exec-server-${place}-${process.pid}-1-0123456789abcdef`);
  mkdirSync(orphan, { recursive: true });
  const lease = await host.acquire();
  expect(readdirSync(join(home, 'proxy'))).toEqual([basename(dirname(bundlePath))]);
  lease.release();
  await waitFor('the file to go', () => readdirSync(home).length === 0);
});

test('keeps files of others next to it', async () => {
  mkdirSync(join(home, 'proxy'));
  writeFileSync(join(home, 'proxy', 'theirs'), '');
  const { host, bundlePath } = hostWith();
  (await host.acquire()).release();
  await waitFor('the file to go', () => !existsSync(dirname(bundlePath)));
  expect(readdirSync(join(home, 'proxy'))).toEqual(['theirs']);
});
