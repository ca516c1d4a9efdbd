import { ClientError } from '../../../client/errors.ts';
import { parentUri } from '../../../client/files/files.ts';
import { attributesOf } from '../../../client/files/list-tree.ts';
import { toNativePath } from '../../../client/paths.ts';
import type { FileOptions } from '../../../environment/index.ts';
import { type Call, requestOptions } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { shownName } from '../text/visible.ts';

/** A path of a call, with the options of operations on it. */
export interface OpenPath {
  /** A `file:` URI. */
  readonly uri: string;
  /** The native path. */
  readonly native: string;
  /** The native path in a line for the model. */
  readonly shown: string;
  readonly options: FileOptions;
}

export interface FileFacts {
  readonly size: number;
  readonly modifiedAtMs: number;
  readonly isDirectory: boolean;
  readonly isFile: boolean;
}

/** Resolves a path of a model. Throws ToolFailure for one outside of the workspace. */
export async function openPath(call: Call, path: string): Promise<OpenPath> {
  const { workspace, target, signal } = call;
  const [uri, sandbox] = await Promise.all([
    workspace.resolve(path === '' ? '.' : path, target, signal),
    workspace.fileSandbox(target, signal),
  ]);
  const native = toNativePath(uri);
  return {
    uri,
    native,
    shown: shownName(native),
    options: { ...requestOptions(call), ...(sandbox !== null && { sandbox }) },
  };
}

/** Throws ToolFailure when the sandbox lets no file be changed. */
export function requireWritable({ workspace }: Call, path: string): void {
  if (workspace.sandbox !== 'read-only') return;
  throw new ToolFailure(
    `${shownName(path)} was not changed: the sandbox is read-only, so no file can be written at any path. Ask the user to make the change, or to choose another sandbox.`,
    { kind: 'permissionDenied' },
  );
}

/** Runs a change of a file, after earlier ones of the same file in this program, also through links to it. */
export async function changing<T>(call: Call, path: OpenPath, work: () => Promise<T>): Promise<T> {
  return call.fileLocks.run(await canonicalUri(call, path), work, call.signal);
}

/** The URI without links. What does not exist yet has the URI that it will have. */
async function canonicalUri(call: Call, { uri, options }: OpenPath): Promise<string> {
  const canonicalize = (each: string) =>
    filesOf(call)
      .canonicalize(each, options)
      .catch(() => null);
  const existing = await canonicalize(uri);
  if (existing !== null) return existing;
  const parent = await canonicalize(parentUri(uri));
  return parent === null ? uri : `${parent.replace(/\/$/, '')}${uri.slice(uri.lastIndexOf('/'))}`;
}

/** Describes what is at a path; null when nothing is. */
export async function factsOf(call: Call, path: OpenPath): Promise<FileFacts | null> {
  try {
    return await filesOf(call).getMetadata(path.uri, path.options);
  } catch (error) {
    if (error instanceof ClientError && error.kind === 'notFound') return null;
    throw pathFailure(call, path, error);
  }
}

/** Describes a regular file. Throws ToolFailure for anything else. */
export async function regularFile(call: Call, path: OpenPath): Promise<FileFacts> {
  const facts = await factsOf(call, path);
  if (facts === null) throw await missing(call, path);
  if (facts.isDirectory)
    throw new ToolFailure(`${path.shown} is a directory. list_directory shows what is in it.`);
  if (!facts.isFile)
    throw new ToolFailure(`${path.shown} is not a regular file, but a device, pipe or socket.`);
  return facts;
}

/** The error for a path that is a link to nothing, or to something that the sandbox hides; null for another path. */
export async function brokenLink(call: Call, path: OpenPath): Promise<ToolFailure | null> {
  const entry = await attributesOf(filesOf(call), path.uri, path.options).catch(() => null);
  return entry?.kind === 'symlink' ? missing(call, path) : null;
}

/** Why nothing is at a path, as far as that can be seen. A sandbox hides what is outside of the workspace. */
export async function missing(call: Call, { uri, shown, options }: OpenPath): Promise<ToolFailure> {
  const entry = await attributesOf(filesOf(call), uri, options).catch(() => null);
  const isConfined = options.sandbox !== undefined;
  if (entry?.kind === 'symlink') {
    const where = isConfined
      ? 'out of the workspace or to a path that does not exist'
      : 'to a path that does not exist';
    return new ToolFailure(`${shown} is a link that leads ${where}.`, { kind: 'notFound' });
  }
  const hidden = isConfined ? ', or it is outside of the workspace behind a link' : '';
  return new ToolFailure(
    `${shown} does not exist${hidden}. list_directory and search_files show what there is.`,
    { kind: 'notFound' },
  );
}

/** Names the path in an error of the server. */
export function pathFailure(call: Call, { shown, options }: OpenPath, error: unknown): unknown {
  if (!(error instanceof ClientError) || error.kind !== 'permissionDenied') return error;
  const { sandbox } = call.workspace;
  const why =
    options.sandbox === undefined
      ? "the server's user may not access it"
      : sandbox === 'read-only'
        ? 'the sandbox does not allow it'
        : 'the sandbox does not allow it; .git, .mcp.json and similar are read-only in it';
  return new ToolFailure(
    `Access to ${shown} is denied: ${why}. Choose another path, or ask the user.`,
    { kind: 'permissionDenied' },
    error,
  );
}

export function filesOf({ target }: Call) {
  return target.environment.files.fileSystem;
}
