import { closeSync, openSync, readSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { systemReason } from '../client/system-error.ts';
import type { ConfigInputs } from '../server/config/resolve.ts';
import { RunError, UsageError } from './failures.ts';

/**
 * Reads the settings file that --config or EXEC_SERVER_CONFIG names, or else the user's own if it exists.
 * Null when there is none. Throws RunError when a named file cannot be read and UsageError when it is not TOML.
 */
export async function readConfigFile(
  flag: string | null,
  env: Readonly<Record<string, string | undefined>>,
): Promise<ConfigInputs['toml']> {
  const named = flag ?? (env.EXEC_SERVER_CONFIG || null);
  const path = named ?? userConfigFile(env, 'config.toml');
  if (path === null) return null;
  const text = readText(path, named === null);
  if (text === null) return null;

  const { parse, TomlError } = await import('smol-toml');
  try {
    return { path, values: parse(text) };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const problem = error.message.split('\n')[0]!.replace(/^Invalid TOML document: /, '');
    throw new UsageError(`${path}:${error.line}:${error.column}: not valid TOML: ${problem}`);
  }
}

/** The path of a file of the user for this program; null for a user without a home directory. */
export function userConfigFile(
  env: Readonly<Record<string, string | undefined>>,
  name: string,
): string | null {
  const xdg = env.XDG_CONFIG_HOME;
  // The XDG base directory specification says to ignore relative paths.
  if (xdg && isAbsolute(xdg)) return join(xdg, 'exec-server', name);
  const home = env.HOME || systemHome();
  return home === null ? null : join(home, '.config', 'exec-server', name);
}

/** Far above any real file. Keeps `--config /dev/zero` from filling the memory. */
const MAX_FILE_BYTES = 1024 * 1024;

/** Reads a whole file or pipe. Null when it does not exist and `mayBeAbsent` is true. */
function readText(path: string, mayBeAbsent: boolean): string | null {
  try {
    const descriptor = openSync(path, 'r');
    try {
      return decode(path, readAll(path, descriptor));
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === undefined) throw error;
    if (mayBeAbsent && (code === 'ENOENT' || code === 'ENOTDIR')) return null;
    throw new RunError(`cannot read the config file ${path}: ${READ_FAILURES[code] ?? systemReason(error)}`);
  }
}

const READ_FAILURES: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist (create it, or name another with --config)',
  ENOTDIR: 'part of the path is not a directory (name another with --config)',
  EACCES: 'permission denied (make it readable, or name another with --config)',
  EISDIR: 'it is a directory (name a file with --config)',
};

function readAll(path: string, descriptor: number): Uint8Array {
  const buffer = Buffer.allocUnsafe(MAX_FILE_BYTES + 1);
  let length = 0;
  for (let count = -1; count !== 0 && length < buffer.length; length += count) {
    count = readSync(descriptor, buffer, length, buffer.length - length, null);
  }
  if (length > MAX_FILE_BYTES) {
    throw new RunError(
      `cannot read the config file ${path}: it is larger than 1 MiB (name another with --config)`,
    );
  }
  return buffer.subarray(0, length);
}

function decode(path: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError(`${path}: not valid TOML: the file is not UTF-8 text`);
  }
}

function systemHome(): string | null {
  try {
    return homedir();
  } catch {
    return null;
  }
}
