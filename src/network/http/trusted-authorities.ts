import { constants } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { createSecureContext, rootCertificates, type SecureContext } from 'node:tls';
import { NetworkError } from '../errors.ts';
import { MAX_CA_FILE_BYTES } from '../limits.ts';
import type { Variables } from './header-fields.ts';

/**
 * Whom TLS connections trust: the authorities that Node knows, those of the system, and those of the file that the environment
 * names. A file that cannot be read fails; nothing of it is remembered, so that it can be put right.
 */
export async function trustedAuthorities(env: Variables): Promise<SecureContext> {
  return trustIn(await authorityFiles(env));
}

/** What is trusted besides the authorities that Node knows, as text; null where there is nothing. */
export interface AuthorityFiles {
  readonly system: string | null;
  /** Named by the environment. */
  readonly added: { readonly path: string; readonly text: string } | null;
}

/** Rejects like {@link trustedAuthorities}. */
export async function authorityFiles(env: Variables): Promise<AuthorityFiles> {
  const variable = VARIABLES.find((name) => env[name]);
  const path = env[variable ?? ''] ?? '';
  const added = variable === undefined ? null : { path, text: await authorityFile(variable, path) };
  return { system: await systemAuthorities(), added };
}

/** Throws NetworkError for certificates that are none. */
export function trustIn({ system, added }: AuthorityFiles): SecureContext {
  const ca = [...rootCertificates, ...[system, added?.text ?? null].filter((text) => text !== null)];
  try {
    return createSecureContext({ ca });
  } catch (error) {
    throw failed(`the certificates of ${added?.path ?? 'the system'} cannot be used`, error);
  }
}

/** The first that is set wins. */
const VARIABLES = ['CODEX_CA_CERTIFICATE', 'SSL_CERT_FILE'] as const;

/** Where Linux systems keep the certificates they trust, those that an administrator has added included. */
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
    throw new Error('it holds no certificate');
  } catch (error) {
    throw failed(`Failed to read CA certificate file ${path} selected by ${variable}`, error);
  }
}

/** A pipe in the place of the file must not hang, and a log must not fill the memory. */
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
