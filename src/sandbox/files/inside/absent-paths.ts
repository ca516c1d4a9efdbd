import {
  isWithin,
  lastName,
  type NativePath,
  nativePathOfBytes,
  parentPath,
} from '../../../files/native-path.ts';
import type { AbsentPath } from '../wire/operations.ts';
import { prospectiveEntry, prospectivePath } from './real-path.ts';

/** How a path relates to an absent path. */
export interface Placement {
  readonly absent: AbsentPath;
  readonly where: 'at' | 'below';
}

/**
 * Paths that must stay absent. In the sandbox of a program a mount protects them. A helper lives too long to keep mount points on the
 * host, so it compares paths, both as spelled and with links resolved. A program that swaps a link between the comparison and the
 * operation may win the race; docs/guides/sandbox.md says what it gains.
 */
export class AbsentPaths {
  readonly #paths: readonly AbsentPath[];

  private constructor(paths: readonly AbsentPath[]) {
    this.#paths = paths;
  }

  /** Includes the paths with the links in their parent directories resolved. */
  static async of(paths: readonly AbsentPath[]): Promise<AbsentPaths> {
    const real = await Promise.all(
      paths.map(async ({ path, kind }) => ({ path: (await prospectiveEntry(path)) ?? path, kind })),
    );
    return new AbsentPaths([...paths, ...real.filter(({ path }, index) => path !== paths[index]!.path)]);
  }

  get isEmpty(): boolean {
    return this.#paths.length === 0;
  }

  /** Finds the absent path that forbids creating an entry at the path, or at the target of a link there. */
  async target(path: NativePath): Promise<Placement | null> {
    if (this.isEmpty) return null;
    return (await this.#beforeDots(path)) ?? this.#match(path) ?? this.#match(await prospectivePath(path));
  }

  /** Finds the absent path that forbids changing the entry at the path itself, which may be a link. */
  async entry(path: NativePath): Promise<Placement | null> {
    if (this.isEmpty) return null;
    return this.#match(path) ?? this.#match(await prospectiveEntry(path));
  }

  /** Whether an absent path is the directory or below it. */
  async isAbove(path: NativePath): Promise<boolean> {
    if (this.isEmpty) return false;
    const real = await prospectivePath(path);
    return this.#paths.some(
      (absent) => isWithin(absent.path, path) || (real !== null && isWithin(absent.path, real)),
    );
  }

  /** The names of the absent directories directly in a directory. */
  async namesIn(directory: NativePath): Promise<string[]> {
    if (this.isEmpty) return [];
    const real = await prospectivePath(directory);
    const names = this.#paths
      .filter(({ path, kind }) => kind === 'directory' && [directory, real].includes(parentPath(path)))
      .map(({ path }) => lastName(path));
    return [...new Set(names)];
  }

  /** The absent directories below a directory, as paths that start with its spelling. */
  async directoriesBelow(directory: NativePath): Promise<NativePath[]> {
    if (this.isEmpty) return [];
    const real = (await prospectivePath(directory)) ?? directory;
    const found = this.#paths.flatMap(({ path, kind }) => {
      if (kind !== 'directory') return [];
      if (isWithin(path, directory)) return [path];
      return isWithin(path, real) ? [`${directory}${path.slice(real.length)}` as NativePath] : [];
    });
    return [...new Set(found)];
  }

  /** Checks the directories that `..` leaves again: creating parent directories recursively would create them too. */
  async #beforeDots(path: NativePath): Promise<Placement | null> {
    for (const { index } of path.matchAll(DOTS)) {
      const left = nativePathOfBytes(path.slice(0, index));
      const placement = this.#match(left) ?? this.#match(await prospectivePath(left));
      if (placement !== null) return { ...placement, where: 'below' };
    }
    return null;
  }

  #match(path: NativePath | null): Placement | null {
    if (path === null) return null;
    const absent = this.#paths.find((candidate) => isWithin(path, candidate.path));
    return absent === undefined ? null : { absent, where: path === absent.path ? 'at' : 'below' };
  }
}

const DOTS = /(?<=.)\/\.\.(?=\/|$)/g;
