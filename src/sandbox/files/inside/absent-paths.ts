import {
  isWithin,
  lastName,
  type NativePath,
  nativePathOfBytes,
  parentPath,
} from '../../../files/native-path.ts';
import type { AbsentPath } from '../wire/operations.ts';
import { prospectiveEntry, prospectivePath } from './real-path.ts';

/** How a path relates to one that must not come to exist. */
export interface Placement {
  readonly absent: AbsentPath;
  readonly where: 'at' | 'below';
}

/**
 * Paths that must not come to exist. Commands find mounts there; a helper lives too long to leave a place for a mount on the host, so
 * it compares paths, both as they are spelled and where they lead. Whoever exchanges a link at the same moment may win the race.
 */
export class AbsentPaths {
  readonly #paths: readonly AbsentPath[];

  private constructor(paths: readonly AbsentPath[]) {
    this.#paths = paths;
  }

  /** Paths are also kept free where the links in front of them lead. */
  static async of(paths: readonly AbsentPath[]): Promise<AbsentPaths> {
    const real = await Promise.all(
      paths.map(async ({ path, kind }) => ({ path: (await prospectiveEntry(path)) ?? path, kind })),
    );
    return new AbsentPaths([...paths, ...real.filter(({ path }, index) => path !== paths[index]!.path)]);
  }

  get isEmpty(): boolean {
    return this.#paths.length === 0;
  }

  /** What is in the way of making something at the path, or behind the link at its end. */
  async target(path: NativePath): Promise<Placement | null> {
    if (this.isEmpty) return null;
    return (await this.#onTheWay(path)) ?? this.#place(path) ?? this.#place(await prospectivePath(path));
  }

  /** What is in the way of changing the entry at the path, which may be a link. */
  async entry(path: NativePath): Promise<Placement | null> {
    if (this.isEmpty) return null;
    return this.#place(path) ?? this.#place(await prospectiveEntry(path));
  }

  /** Whether one of the paths lies below a directory. */
  async isAbove(path: NativePath): Promise<boolean> {
    if (this.isEmpty) return false;
    const real = await prospectivePath(path);
    return this.#paths.some(
      (absent) => isWithin(absent.path, path) || (real !== null && isWithin(absent.path, real)),
    );
  }

  /** Names of directories that seem to be in a directory and are not. */
  async namesIn(directory: NativePath): Promise<string[]> {
    if (this.isEmpty) return [];
    const real = await prospectivePath(directory);
    const names = this.#paths
      .filter(({ path, kind }) => kind === 'directory' && [directory, real].includes(parentPath(path)))
      .map(({ path }) => lastName(path));
    return [...new Set(names)];
  }

  /** The seeming directories below a directory, as paths that begin like it. */
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

  /** Where dots lead back out of a directory, it is made all the same when those on the way to a path are. */
  async #onTheWay(path: NativePath): Promise<Placement | null> {
    for (const { index } of path.matchAll(DOTS)) {
      const turn = nativePathOfBytes(path.slice(0, index));
      const placement = this.#place(turn) ?? this.#place(await prospectivePath(turn));
      if (placement !== null) return { ...placement, where: 'below' };
    }
    return null;
  }

  #place(path: NativePath | null): Placement | null {
    if (path === null) return null;
    const absent = this.#paths.find((candidate) => isWithin(path, candidate.path));
    return absent === undefined ? null : { absent, where: path === absent.path ? 'at' : 'below' };
  }
}

const DOTS = /(?<=.)\/\.\.(?=\/|$)/g;
