import { closeSync, openSync, readSync } from 'node:fs';
import { resolve } from 'node:path';
import { FileError, toFileError } from '../../files/errors.ts';
import { StartError } from '../../listener/start-error.ts';
import { MAX_SECRET_FILE_BYTES } from '../limits.ts';

/**
 * Reads a token or secret without the white space around it. Throws StartError, which names the file and `what` it is for, but not its
 * content.
 */
export function readSecretFile(file: string, what = 'websocket auth secret'): string {
  const path = resolve(file);
  const secret = readText(path, what).trim();
  if (secret === '') throw new StartError(`${what} ${path} must not be empty`);
  return secret;
}

/** Reads the secret for signed tokens. Throws StartError when it is too short. Without `what` errors have the words of the reference. */
export function readSharedSecret(file: string, what?: string): string {
  const secret = readSecretFile(file, what);
  if (Buffer.byteLength(secret) >= MIN_SHARED_SECRET_BYTES) return secret;
  throw new StartError(
    `${what ?? 'signed websocket bearer secret'} ${resolve(file)} must be at least ${MIN_SHARED_SECRET_BYTES} bytes`,
  );
}

/** The length of the digest, the minimum that RFC 2104 recommends for an HMAC key. */
const MIN_SHARED_SECRET_BYTES = 32;

function readText(path: string, what: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readBytes(path));
  } catch (error) {
    const failure = toFileError(error);
    const reason = failure instanceof FileError ? failure.message : problemOf(error);
    throw new StartError(`failed to read ${what} ${path}: ${reason}`);
  }
}

/** Reads a limited number of bytes, because the path may be an endless device. */
function readBytes(path: string): Buffer {
  const descriptor = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(MAX_SECRET_FILE_BYTES + 1);
    let length = 0;
    for (let count = -1; count !== 0 && length < buffer.length; length += count) {
      count = readSync(descriptor, buffer, length, buffer.length - length, null);
    }
    if (length > MAX_SECRET_FILE_BYTES) throw new RangeError('it is too large to be a secret');
    return buffer.subarray(0, length);
  } finally {
    closeSync(descriptor);
  }
}

function problemOf(error: unknown): string {
  return error instanceof RangeError ? error.message : 'stream did not contain valid UTF-8';
}
