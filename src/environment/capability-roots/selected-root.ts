import { ClientError } from '../../client/errors.ts';
import { nativePathOfText } from '../../files/native-path.ts';
import { escapeBytes, PathUriError, pathFromUri, spelledUri, uriFromPath } from '../../files/path-uri.ts';

/** A directory with capabilities that a thread selected. It has stable names only: no handle, no state and no discovered data. */
export interface SelectedCapabilityRoot {
  readonly id: string;
  readonly location: {
    readonly type: 'environment';
    readonly environmentId: string;
    /** A `file:` URI of the executor. */
    readonly path: string;
  };
}

/** The input of a selection. `path` is a `file:` URI or an absolute path of the executor, whose operating system may differ. */
export interface RootChoice {
  readonly id: string;
  readonly environmentId: string;
  readonly path: string;
}

/** Selects one root. Throws ClientError `invalidInput` when the choice is invalid. */
export function selectRoot({ id, environmentId, path }: RootChoice): SelectedCapabilityRoot {
  if (id.trim() === '') throw invalid('a capability root has a blank id');
  if (environmentId === '') throw invalid(`capability root '${id}' names no environment`);
  return { id, location: { type: 'environment', environmentId, path: storedPath(id, path) } };
}

/** Parses a stored selection. Throws ClientError `invalidInput` when it is invalid. */
export function parseSelectedRoot(value: unknown): SelectedCapabilityRoot {
  const { id, location } = members(value);
  const { type, environmentId, path } = members(location);
  if (typeof id !== 'string' || typeof environmentId !== 'string' || typeof path !== 'string') {
    throw invalid('a capability root lacks its id, environment id or path');
  }
  if (type !== 'environment') throw invalid(`capability root '${id}' has a location of an unknown type`);
  return selectRoot({ id, environmentId, path });
}

export function sameLocation(one: SelectedCapabilityRoot, other: SelectedCapabilityRoot): boolean {
  const [a, b] = [one.location, other.location];
  return a.environmentId === b.environmentId && a.path === b.path;
}

/** Returns the canonical spelling of a path, which executors compare with. */
function storedPath(id: string, path: string): string {
  const uri = uriOf(path);
  if (uri === null) throw invalid(`the path of capability root '${id}' is not absolute`);
  try {
    pathFromUri(uri);
  } catch (error) {
    if (!(error instanceof PathUriError)) throw error;
    // A path of another operating system is valid there.
    if (error.kind === 'syntax') throw invalid(`the path of capability root '${id}': ${error.message}`);
  }
  return spelledUri(uri);
}

/** Returns the URI of an absolute path of any operating system; null for a relative path. */
export function uriOf(path: string): string | null {
  if (/^file:/i.test(path)) return path;
  if (path.startsWith('/')) return uriFromPath(nativePathOfText(path));
  const windows = path.replaceAll('\\', '/');
  if (/^[A-Za-z]:\//.test(windows)) return `file:///${escapeBytes(nativePathOfText(windows))}`;
  if (path.startsWith('\\\\')) return `file:${escapeBytes(nativePathOfText(windows))}`;
  return null;
}

function invalid(message: string): ClientError {
  return new ClientError('invalidInput', message, {
    hint: 'a root has an id, an environment id, and a `file:` URI or an absolute path',
  });
}

function members(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
