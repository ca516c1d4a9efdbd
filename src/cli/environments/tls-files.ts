import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { TlsOptions } from '../../transport/tls-options.ts';
import { RunError } from '../failures.ts';
import { cannotReadFile } from '../file-failures.ts';
import type { TlsFiles } from './environments-file.ts';

/** Reads the files of an environment for TLS. Throws RunError for a file that cannot be read or used. */
export function readTlsFiles({ ca, cert, key }: TlsFiles): TlsOptions {
  const options = {
    ...(ca !== null && { ca: readPem(ca) }),
    ...(cert !== null && key !== null && { cert: readPem(cert), key: readPem(key) }),
  };
  try {
    createSecureContext(options);
  } catch (error) {
    const files = [ca, cert, key].filter((file) => file !== null).join(', ');
    throw new RunError(
      `the certificates of ${files} cannot be used: ${(error as Error).message}; write PEM files, and the key of that certificate without a password`,
    );
  }
  return options;
}

function readPem(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw cannotReadFile(file, error);
  }
}
