import type { DirectoryEntry, WalkEntry, WalkResult } from '../../../files/file-system.ts';

/** A directory listing as bytes: for each entry a letter for its kind and its name, which has no NUL. */
export function encodeEntries(entries: readonly DirectoryEntry[]): Buffer {
  const listed = entries.map(
    ({ name, isDirectory, isFile }) => `${isDirectory ? 'd' : isFile ? 'f' : 'o'}${name}`,
  );
  return Buffer.from(listed.join('\0'), 'latin1');
}

export function decodeEntries(content: Buffer): DirectoryEntry[] {
  if (content.length === 0) return [];
  return content
    .toString('latin1')
    .split('\0')
    .map((entry) => ({
      name: entry.slice(1),
      isDirectory: entry.startsWith('d'),
      isFile: entry.startsWith('f'),
    }));
}

/** The result of a walk as bytes: what is no entry in JSON, then each entry as a letter for its kind and its URI. Neither has a NUL. */
export function encodeWalk({ entries, errors, truncated }: WalkResult): Buffer {
  const listed = entries.map(({ uri, kind }) => `\0${kind === 'directory' ? 'd' : 'f'}${uri}`);
  return Buffer.from(JSON.stringify({ errors, truncated }) + listed.join(''));
}

export function decodeWalk(content: Buffer): WalkResult {
  const [rest = '', ...listed] = content.toString().split('\0');
  const entries = listed.map(
    (entry): WalkEntry => ({ uri: entry.slice(1), kind: entry.startsWith('d') ? 'directory' : 'file' }),
  );
  const { errors, truncated } = JSON.parse(rest) as Omit<WalkResult, 'entries'>;
  return { entries, errors, truncated };
}
