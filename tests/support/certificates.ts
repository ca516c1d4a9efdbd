import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Paths of a certificate and its key, as PEM files. */
export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

/** Certificates for one test, created by `openssl` in a folder that `remove` deletes. */
export class Certificates {
  readonly folder = mkdtempSync(join(tmpdir(), 'certificates-'));

  /** A separate authority. */
  authority(name: string): CertificateFiles {
    const files = this.#files(name);
    this.#openssl('req', '-x509', ...NEW_KEY, '-subj', `/CN=${name}`, '-days', '2', ...out(files));
    return files;
  }

  /** A certificate signed by an authority, by default for 127.0.0.1. */
  signedBy(authority: CertificateFiles, name: string, subject = 'IP:127.0.0.1'): CertificateFiles {
    const files = this.#files(name);
    const [request, extensions] = [this.path(`${name}.csr`), this.path(`${name}.ext`)];
    writeFileSync(extensions, `subjectAltName=${subject}\n`);
    this.#openssl('req', ...NEW_KEY, '-subj', `/CN=${name}`, '-keyout', files.key, '-out', request);
    this.#openssl(
      ...['x509', '-req', '-in', request, '-days', '2', '-extfile', extensions],
      ...['-CA', authority.cert, '-CAkey', authority.key, '-CAcreateserial', '-out', files.cert],
    );
    return files;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #files(name: string): CertificateFiles {
    return { cert: this.path(`${name}.pem`), key: this.path(`${name}.key`) };
  }

  #openssl(...args: string[]): void {
    execFileSync('openssl', args, { stdio: 'pipe' });
  }
}

/** The contents of both files. */
export function pem({ cert, key }: CertificateFiles): { cert: string; key: string } {
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

function out({ cert, key }: CertificateFiles): string[] {
  return ['-keyout', key, '-out', cert];
}
