import type { DirectoryEntry, PathListing, WalkEntry, WalkResult } from '../../../files/file-system.ts';

/** Encodes a directory listing: a letter for the kind and the name of each entry, separated by NUL. */
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

/** Encodes a directory with the attributes of its entries. */
export function encodeListing(listing: PathListing): Buffer {
  return Buffer.from(JSON.stringify(listing));
}

export function decodeListing(content: Buffer): PathListing {
  return JSON.parse(content.toString()) as PathListing;
}

/** Encodes the result of a walk: everything but the entries as JSON, then a letter for the kind and the URI of each entry, separated by NUL. */
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
