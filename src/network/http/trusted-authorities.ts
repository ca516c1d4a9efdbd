import { constants } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls';
import { NetworkError } from '../errors.ts';
import { MAX_CA_FILE_BYTES } from '../limits.ts';
import type { Variables } from './header-fields.ts';

/**
 * The CA certificates that TLS connections trust: Node's, the system's, and those of the file that the environment names. Rejects
 * when that file cannot be read. A failure is not cached, so that the file can be corrected.
 */
export async function trustedAuthorities(env: Variables): Promise<SecureContext> {
  return trustIn(await authorityFiles(env));
}

/** Trusted certificates in addition to Node's own, as PEM text; null where there are none. */
export interface AuthorityFiles {
  readonly system: string | null;
  /** From the file that the environment names. */
  readonly added: { readonly path: string; readonly text: string } | null;
}

/** Rejects like {@link trustedAuthorities}. */
export async function authorityFiles(env: Variables): Promise<AuthorityFiles> {
  const variable = VARIABLES.find((name) => env[name]);
  const path = env[variable ?? ''] ?? '';
  const added = variable === undefined ? null : { path, text: await authorityFile(variable, path) };
  return { system: await systemAuthorities(), added };
}

/** Throws NetworkError when the certificates cannot be parsed. */
export function trustIn({ system, added }: AuthorityFiles): SecureContext {
  const ca = [...rootCertificates, ...[system, added?.text ?? null].filter((text) => text !== null)];
  try {
    return createSecureContext({ ca });
  } catch (error) {
    throw failed(`the certificates of ${added?.path ?? 'the system'} cannot be used`, error);
  }
}

/** The first variable that is set is used. */
const VARIABLES = ['CODEX_CA_CERTIFICATE', 'SSL_CERT_FILE'] as const;

/** Where Linux systems keep trusted certificates, including those that an administrator added. */
const SYSTEM_FILES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
] as const;

async function systemAuthorities(): Promise<string | null> {
  for (const path of SYSTEM_FILES) {
    const text = await readFile(path, 'latin1').catch(() => null);
    if (text?.includes('-----BEGIN CERTIFICATE-----')) return text;
  }
  return null;
}

async function authorityFile(variable: string, path: string): Promise<string> {
  try {
    const text = await boundedText(path);
    if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
    throw new Error('it contains no certificate');
  } catch (error) {
    throw failed(`Failed to read CA certificate file ${path} selected by ${variable}`, error);
  }
}

/** Does not block on a named pipe, and does not read a huge file into memory. */
async function boundedText(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw new Error('it is not a file');
    const { size } = stats;
    if (size > MAX_CA_FILE_BYTES) throw new Error(`it has more than ${MAX_CA_FILE_BYTES} bytes`);
    const { bytesRead, buffer } = await file.read(Buffer.alloc(size), 0, size, 0);
    return buffer.toString('latin1', 0, bytesRead);
  } finally {
    await file.close();
  }
}

function failed(what: string, cause: unknown): NetworkError {
  return new NetworkError('failed', `http/request failed: ${what}: ${(cause as Error).message}`, { cause });
}
