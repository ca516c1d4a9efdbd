import { ClientError, type ExecServerClient } from '../../../../src/client/browser.ts';
import { writeFile } from './transfers.ts';

/** Changes when the content of the file does: its SHA-256, or else its time and size. */
export async function versionOf(client: ExecServerClient, path: string): Promise<string> {
  if (client.capabilities.fsHash) return (await client.files.hash(path)).sha256;
  const { modifiedAt, size } = await client.files.stat(path);
  return `${modifiedAt.getTime()} ${size}`;
}

/** What another program has done to a file since it was opened. */
export type Conflict = 'changed' | 'deleted';

/**
 * Replaces a file, and returns its new version. Returns a conflict, and replaces nothing, when the file does not have the expected version
 * any more. The page compares the versions before it sends the content, and the server immediately before the replacement, if it can.
 */
export async function saveFile(
  client: ExecServerClient,
  path: string,
  text: string,
  expected: string | null,
): Promise<{ readonly version: string } | { readonly conflict: Conflict }> {
  if (expected !== null) {
    const found = await existingVersionOf(client, path);
    if (found !== expected) return { conflict: found === null ? 'deleted' : 'changed' };
  }
  const bytes = new TextEncoder().encode(text);
  try {
    const isHash = client.capabilities.fsIfSha256 === true && SHA256.test(expected ?? '');
    await writeFile(client, path, bytes, isHash ? expected! : undefined);
  } catch (error) {
    if (error instanceof ClientError && error.kind === 'conflict') return { conflict: 'changed' };
    throw error;
  }
  return {
    version: (client.capabilities.fsHash && (await hashOf(bytes))) || (await versionOf(client, path)),
  };
}

async function existingVersionOf(client: ExecServerClient, path: string): Promise<string | null> {
  try {
    return await versionOf(client, path);
  } catch (error) {
    if (error instanceof ClientError && error.kind === 'notFound') return null;
    throw error;
  }
}

const SHA256 = /^[0-9a-f]{64}$/;

/** The SHA-256 of what was written: the file may have changed again. Null on pages without TLS, except on this machine. */
async function hashOf(bytes: Uint8Array<ArrayBuffer>): Promise<string | null> {
  if (!isSecureContext) return null;
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
