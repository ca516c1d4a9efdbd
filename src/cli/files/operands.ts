import { existsSync } from 'node:fs';
import type { ExecServerClient } from '../../client/client.ts';
import { toFileUri } from '../../client/paths.ts';
import { quoteValue } from '../../server/config/values.ts';
import { UsageError } from '../failures.ts';

/** A path of the command line: of an environment, or of this machine where that is null. */
export interface FileOperand {
  readonly text: string;
  /** A name or a URL; the empty text stands for the environment of -E. */
  readonly environment: string | null;
  readonly path: string;
}

/**
 * Reads `ENV:PATH`, `URL:PATH`, `:PATH` or a path of this machine. A slash before the first colon makes it a path of this machine. Throws
 * UsageError for a URL without a path.
 */
export function parseOperand(text: string, command: string): FileOperand {
  if (text === '')
    throw new UsageError('a path must not be empty; write . for the current directory', command);
  const url = /^(?:wss?|ssh|unix):\/\//i.exec(text);
  if (url !== null) return urlOperand(text, url[0].toLowerCase().startsWith('unix'), command);
  const colon = text.indexOf(':');
  const slash = text.indexOf('/');
  if (colon === -1 || (slash !== -1 && slash < colon)) return { text, environment: null, path: text };
  return { text, environment: text.slice(0, colon), path: text.slice(colon + 1) };
}

function urlOperand(text: string, isSocket: boolean, command: string): FileOperand {
  const parts = (isSocket ? /^([^:]*:\/\/\/[^:]+):(.*)$/s : /^([^:]*:\/\/[^/]*):(.*)$/s).exec(text);
  // What follows the only colon of ws://HOST:PORT is a port.
  if (parts === null || (!isSocket && /^\d+$/.test(parts[2]!) && !/:\d+$/.test(parts[1]!))) {
    throw new UsageError(
      `${quoteValue(text)} has no path; write URL:PATH, for example ws://HOST:4000:/tmp`,
      command,
    );
  }
  return { text, environment: parts[1]!, path: parts[2]! };
}

/** The directory of an environment where relative paths begin; null where the server does not say it. */
export async function homeOf(client: ExecServerClient, signal: AbortSignal): Promise<string | null> {
  const { userHomeDir, cwd } = await client.info({ signal });
  return userHomeDir ?? cwd ?? null;
}

/** The `file:` URI of a path of an environment. `~` and relative paths are in the home directory there. */
export function uriThere(path: string, home: string | null): string {
  if (path.startsWith('/')) return toFileUri(path, null);
  const inHome = path.replace(/^~(?=\/|$)/, '').replace(/^\/+/, '');
  return toFileUri(inHome === '' ? '.' : inHome, home);
}

/** The environment that a path names, and where its name comes from, for errors. */
export function namedBy({ text, environment }: FileOperand): {
  readonly environment: string | null;
  readonly source: string;
} {
  return { environment, source: `the path ${quoteValue(text)}` };
}

/** Says how to name a file with a colon, if one with this name exists. */
export function colonHint({ text }: FileOperand): string {
  return existsSync(text) ? `; for the file of this machine write ./${text}` : '';
}
