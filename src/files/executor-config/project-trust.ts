import { FileError } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { childPath, type NativePath, nativePathOfText, parentPath } from '../native-path.ts';
import { badConfig, isTable, type TomlTable } from './toml-files.ts';

/** What the machine and its user say about projects; nothing that a project says about itself counts. */
export interface ProjectRules {
  /** Names whose presence makes a directory the root of a project. */
  readonly rootMarkers: readonly string[];
  /** By directory, whether its configuration may be used. */
  readonly trusted: ReadonlyMap<NativePath, boolean>;
}

/** The rules that hold when configurations are laid over each other, the weightiest last. Throws FileError when one makes no sense. */
export function projectRules(configs: readonly TomlTable[]): ProjectRules {
  let rootMarkers: readonly string[] = [GIT];
  const trusted = new Map<NativePath, boolean>();
  for (const config of configs) {
    const { project_root_markers: markers, projects = {} } = config;
    if (markers !== undefined) rootMarkers = checkedMarkers(markers);
    if (!isTable(projects)) throw badConfig('projects must be a table');
    for (const [directory, project] of Object.entries(projects)) {
      const level = trustLevel(directory, project);
      if (level !== null) trusted.set(nativePathOfText(directory), level);
    }
  }
  return { rootMarkers, trusted };
}

/** The directories of the project that `cwd` is in, from its root down, whose configuration may be used. */
export async function trustedDirectories(
  files: FileSystem,
  cwd: NativePath,
  { rootMarkers, trusted }: ProjectRules,
): Promise<NativePath[]> {
  // Without a word of trust nothing on the way needs to be looked at.
  if (![...trusted.values()].includes(true)) return [];
  const root = await projectRoot(files, cwd, rootMarkers);
  const ofRoot = (await wordOn(files, root, trusted)) ?? (await wordOnRepository(files, cwd, trusted));
  const kept: NativePath[] = [];
  for (const directory of directoriesBetween(root, cwd)) {
    if ((await wordOn(files, directory, trusted)) ?? ofRoot) kept.push(directory);
  }
  return kept;
}

const GIT = '.git';

function checkedMarkers(value: unknown): string[] {
  if (Array.isArray(value) && value.every((marker) => typeof marker === 'string')) return value;
  throw badConfig('project_root_markers must be an array of strings');
}

function trustLevel(directory: string, project: unknown): boolean | null {
  if (!isTable(project)) throw badConfig(`projects.${directory} must be a table`);
  const { trust_level: level } = project;
  if (level === undefined) return null;
  if (level === 'trusted' || level === 'untrusted') return level === 'trusted';
  throw badConfig(`projects.${directory}.trust_level must be \`trusted\` or \`untrusted\``);
}

/** What is said of a directory, by its real name or else by the one it goes by: a link must not undo it. Null when nothing is. */
async function wordOn(
  files: FileSystem,
  directory: NativePath,
  trusted: ReadonlyMap<NativePath, boolean>,
): Promise<boolean | null> {
  const named = trusted.get(directory) ?? null;
  try {
    return trusted.get(await files.canonicalize(directory)) ?? named;
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return named;
  }
}

/** What is said of the repository that a directory is in, if it is marked otherwise. */
async function wordOnRepository(
  files: FileSystem,
  cwd: NativePath,
  trusted: ReadonlyMap<NativePath, boolean>,
): Promise<boolean | null> {
  const repository = await projectRoot(files, cwd, [GIT]);
  const metadata = await metadataOf(files, childPath(repository, GIT));
  return metadata?.isDirectory ? await wordOn(files, repository, trusted) : null;
}

/** The nearest directory upwards that has a marker; `cwd` itself when none has. */
async function projectRoot(
  files: FileSystem,
  cwd: NativePath,
  markers: readonly string[],
): Promise<NativePath> {
  if (markers.length === 0) return cwd;
  for (let directory = cwd; ; directory = parentPath(directory)) {
    for (const marker of markers) {
      if (await isMarked(files, childPath(directory, nativePathOfText(marker)), marker)) return directory;
    }
    if (directory === '/') return cwd;
  }
}

/** A directory called .git is a repository only if it has a HEAD; as a file it points to one. */
async function isMarked(files: FileSystem, path: NativePath, marker: string): Promise<boolean> {
  const metadata = await metadataOf(files, path);
  if (metadata === null) return false;
  if (marker !== GIT || !metadata.isDirectory) return true;
  return (await metadataOf(files, childPath(path, 'HEAD'))) !== null;
}

async function metadataOf(files: FileSystem, path: NativePath) {
  try {
    return await files.getMetadata(path, { followSymlinks: true });
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return null;
  }
}

function directoriesBetween(root: NativePath, cwd: NativePath): NativePath[] {
  const directories = [cwd];
  while (directories[0] !== root) directories.unshift(parentPath(directories[0]!));
  return directories;
}
