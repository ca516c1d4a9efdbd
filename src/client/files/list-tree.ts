import type { ExecutorFileSystem, FileOptions, ListResult } from '../backend.ts';
import { serverErrorKind } from '../connection/error-kinds.ts';
import { ClientError } from '../errors.ts';
import { LISTS_PER_CALL } from '../limits.ts';
import { toNativePath } from '../paths.ts';
import { unescapeBytes, unescapeText } from './escapes.ts';
import { failedWith, namingPath } from './file-errors.ts';
import type { PathAttributes } from './file-types.ts';

/** An entry of a tree. */
export interface TreeEntry extends PathAttributes {
  readonly uri: string;
  /** The name, percent-encoded: it need not be UTF-8. */
  readonly encodedName: string;
}

export interface ListTreeOptions extends FileOptions {
  /** Default true. With false only what is directly in the directory is listed. */
  readonly recursive?: boolean;
  /** Receives the error of a directory that could not be read. Without it the iteration fails with that error. */
  readonly onError?: (error: ClientError, path: string) => void;
}

/** The attributes of what is at a path. Follows no link there. */
export async function attributesOf(
  files: ExecutorFileSystem,
  uri: string,
  options: FileOptions,
): Promise<PathAttributes> {
  const [listing] = checkedList(await files.list([uri], options)).listings;
  if (listing?.error !== undefined) throw listingError(listing.error);
  if (listing?.attributes === undefined) {
    throw new ClientError('protocol', `invalid message from the server: no attributes of ${uri}`);
  }
  return pathAttributes(uri, listing.attributes);
}

/**
 * Lists a directory, or everything below it, parents before their contents and no link followed. A result of the server has a limit;
 * what did not fit is requested next. Every directory is listed once, and only after its entry, so a server cannot list without an end
 * or name a place outside the tree.
 */
export async function* listTree(
  files: ExecutorFileSystem,
  root: string,
  { recursive = true, onError, ...call }: ListTreeOptions,
): AsyncGenerator<TreeEntry, void> {
  let pending: string[] = [root];
  /** Directories that are not listed yet. */
  const expected = new Set([keyOf(root)]);
  while (pending.length > 0) {
    const paths = pending.slice(0, LISTS_PER_CALL);
    const { listings, unlisted } = checkedList(await files.list(paths, { ...call, recursive }));
    pending = [...unlisted, ...pending.slice(LISTS_PER_CALL)];
    for (const listing of listings) {
      if (!expected.delete(keyOf(listing.path)))
        throw invalid(`it lists ${listing.path}, which was not requested or is listed already`);
      if (listing.error !== undefined) {
        const error = namingPath('list', listing.path, listingError(listing.error)) as ClientError;
        if (onError === undefined || keyOf(listing.path) === keyOf(root)) throw error;
        onError(error, toNativePath(listing.path));
      }
      for (const entry of entriesOf(listing)) {
        if (recursive && entry.kind === 'directory') expected.add(keyOf(entry.uri));
        yield entry;
      }
    }
  }
}

/** One directory of several, with its entries or why it could not be read. */
interface ListedDirectory {
  readonly uri: string;
  readonly entries: readonly TreeEntry[];
  readonly error: ClientError | null;
}

/** Lists directories, in requests of up to 1,000 of them. Follows no link. */
export async function* listDirectories(
  files: ExecutorFileSystem,
  uris: readonly string[],
  options: FileOptions,
): AsyncGenerator<ListedDirectory, void> {
  let pending = [...uris];
  while (pending.length > 0) {
    const { listings, unlisted } = checkedList(await files.list(pending.slice(0, LISTS_PER_CALL), options));
    pending = [...unlisted, ...pending.slice(LISTS_PER_CALL)];
    for (const listing of listings) {
      const error = listing.error === undefined ? null : listingError(listing.error);
      yield { uri: listing.path, entries: error === null ? [...entriesOf(listing)] : [], error };
    }
  }
}

/**
 * The names of the links in a directory, percent-encoded as the executor sends them. A link to a directory is followed. Null on executors
 * that cannot list links.
 */
export async function linksIn(
  files: ExecutorFileSystem,
  uri: string,
  options: FileOptions,
): Promise<readonly string[] | null> {
  const list = async (path: string) => checkedList(await files.list([path], options)).listings[0]!;
  try {
    let listing = await list(uri);
    if (listing.attributes?.kind === 'symlink') listing = await list(await files.canonicalize(uri, options));
    if (listing.error !== undefined) throw listingError(listing.error);
    return Array.from(entriesOf(listing))
      .filter(({ kind }) => kind === 'symlink')
      .map(({ encodedName }) => encodedName);
  } catch (error) {
    if (failedWith(error, 'unsupported')) return null;
    throw error;
  }
}

function checkedList({ listings, unlisted }: ListResult): ListResult {
  const isValid =
    Array.isArray(listings) &&
    listings.every((listing) => typeof listing?.path === 'string') &&
    Array.isArray(unlisted) &&
    unlisted.every((path) => typeof path === 'string');
  if (!isValid) throw invalid('a listing without paths');
  // Each request lists at least one directory, so the requests end with the directories.
  if (listings.length === 0) throw invalid('it lists nothing of what was requested');
  return { listings, unlisted };
}

/** The same for each way to write a URI. */
function keyOf(uri: string): string {
  const decoded = uri.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
  return decoded.replace(/\/$/, '');
}

function* entriesOf({ path, entries = [] }: ListResult['listings'][number]): Generator<TreeEntry> {
  const start = path.endsWith('/') ? path : `${path}/`;
  const names = new Set<string>();
  if (!Array.isArray(entries)) throw invalid(`the entries of ${path}`);
  for (const { name, ...attributes } of entries) {
    if (!isEntryName(name)) throw invalid(`${start}${name} is not an entry of ${path}`);
    const decoded = latin1Of(name);
    if (names.has(decoded)) throw invalid(`${start}${name} is listed twice`);
    names.add(decoded);
    const uri = start + name;
    yield { ...pathAttributes(uri, attributes), uri, encodedName: name };
  }
}

/** Whether a percent-encoded text is the name of one entry of a directory. A server must not be able to choose another place. */
export function isEntryName(encoded: unknown): encoded is string {
  if (typeof encoded !== 'string' || /[^\u0000-\u00ff]|[/?#]/.test(encoded)) return false;
  const name = latin1Of(encoded);
  if (/[/\0]/.test(name) || ['', '.', '..'].includes(name)) return false;
  return !(IS_WINDOWS && /[\\:]/.test(name));
}

function latin1Of(encoded: string): string {
  return Array.from(unescapeBytes(encoded), (byte) => String.fromCharCode(byte)).join('');
}

/** A browser has no `process`, and copies nothing to this machine. */
const IS_WINDOWS = globalThis.process?.platform === 'win32';

function pathAttributes(
  uri: string,
  { kind, size, mode, modifiedAtMs, target }: NonNullable<ListResult['listings'][number]['attributes']>,
): PathAttributes {
  const isValid = KINDS.has(kind) && [size, mode, modifiedAtMs].every(Number.isFinite) && size >= 0;
  if (!isValid) throw invalid(`the attributes of ${uri}`);
  const encodedTarget = kind === 'symlink' ? target : null;
  if (encodedTarget !== null && !isTarget(encodedTarget)) throw invalid(`the target of the link ${uri}`);
  return {
    path: toNativePath(uri),
    kind,
    size,
    mode,
    modifiedAtMs,
    target: encodedTarget === null ? null : unescapeText(encodedTarget),
    encodedTarget,
  };
}

const KINDS: ReadonlySet<unknown> = new Set<PathAttributes['kind']>([
  'file',
  'directory',
  'symlink',
  'other',
]);

function isTarget(encoded: unknown): encoded is string {
  return typeof encoded === 'string' && encoded !== '' && !/[^\u0000-\u00ff]|\0|%00/.test(encoded);
}

function invalid(what: string): ClientError {
  return new ClientError('protocol', `invalid message from the server: ${what}`);
}

/** The error of a path that a server could not list. */
export function listingError({
  code,
  message,
}: {
  readonly code: number;
  readonly message: string;
}): ClientError {
  return new ClientError(serverErrorKind(code, message), message, { code });
}
