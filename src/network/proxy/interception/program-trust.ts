import { readFile } from 'node:fs/promises';
import { rootCertificates } from 'node:tls';
import type { ServerVariables } from '../proxy-host.ts';

/** The certificates that programs of this machine trust anyway, and those that the server was told to trust, in PEM. */
export async function programTrust(env: ServerVariables): Promise<readonly string[]> {
  const added = env.CODEX_CA_CERTIFICATE || env.SSL_CERT_FILE;
  const [system, own] = await Promise.all([
    systemCertificates(),
    added ? readFile(added, 'latin1').then(certificatesIn) : [],
  ]);
  return [...system, ...own];
}

/** Node's own where the system keeps none. */
async function systemCertificates(): Promise<readonly string[]> {
  for (const path of SYSTEM_FILES) {
    const found = certificatesIn(await readFile(path, 'latin1').catch(() => ''));
    if (found.length > 0) return found;
  }
  return rootCertificates;
}

/** Where Linux systems keep the certificates they trust, those that an administrator has added included. */
const SYSTEM_FILES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
] as const;

/** Nothing else of a file: there may be keys in it. */
function certificatesIn(pem: string): readonly string[] {
  return pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
}
