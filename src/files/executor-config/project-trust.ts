import { FileError } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { childPath, type NativePath, nativePathOfText, parentPath } from '../native-path.ts';
import { badConfig, isTable, type TomlTable } from './toml-files.ts';

/** The rules of the administrator and the user about projects. What a project says about itself is ignored. */
interface ProjectRules {
  /** A directory that contains one of these names is the root of a project. */
  readonly rootMarkers: readonly string[];
  /** By directory, whether its configuration is trusted. */
  readonly trusted: ReadonlyMap<NativePath, boolean>;
}

/** Combines the rules of several configurations; later ones take precedence. Throws FileError when one is invalid. */
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

/** The trusted directories of the project that contains `cwd`, from its root down. */
export async function trustedDirectories(
  files: FileSystem,
  cwd: NativePath,
  { rootMarkers, trusted }: ProjectRules,
): Promise<NativePath[]> {
  // If nothing is trusted, no directory needs to be checked.
  if (![...trusted.values()].includes(true)) return [];
  const root = await projectRoot(files, cwd, rootMarkers);
  const rootTrust = (await trustOf(files, root, trusted)) ?? (await repositoryTrust(files, cwd, trusted));
  const found: NativePath[] = [];
  for (const directory of directoriesBetween(root, cwd)) {
    if ((await trustOf(files, directory, trusted)) ?? rootTrust) found.push(directory);
  }
  return found;
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

/** The rule for a directory, by its real path or else by the given path: a link must not bypass the rule. Null without a rule. */
async function trustOf(
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

/** The rule for the git repository of a directory, if other markers define the project. */
async function repositoryTrust(
  files: FileSystem,
  cwd: NativePath,
  trusted: ReadonlyMap<NativePath, boolean>,
): Promise<boolean | null> {
  const repository = await projectRoot(files, cwd, [GIT]);
  const metadata = await metadataOf(files, childPath(repository, GIT));
  return metadata?.isDirectory ? await trustOf(files, repository, trusted) : null;
}

/** The nearest ancestor that has a marker; `cwd` itself when none has. */
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

/** A directory named .git is a repository only if it has a HEAD. A file named .git points to a repository. */
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
