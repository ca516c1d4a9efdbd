import {
  type Attributes,
  ancestorsOf,
  type Entry,
  type FileEntry,
  isOpaque,
  parentOf,
  type Removal,
  type Tree,
} from './tree.ts';

/** What makes a destination equal to a source. The phases run in the order of the members. */
export interface Plan {
  /** Entries that are in the way of another kind of entry, contents before their directory. */
  readonly clears: readonly Removal[];
  /** New directories, parents first. */
  readonly directories: readonly string[];
  readonly copies: readonly FileTask[];
  /** Files with the same size and another time: their content decides whether they are copied. */
  readonly comparisons: readonly FileTask[];
  readonly links: readonly LinkTask[];
  /** Files that differ only in their attributes. */
  readonly attributes: readonly AttributeTask[];
  /** Entries that the source does not have, contents before their directory. */
  readonly deletions: readonly Removal[];
  /** Modes of directories, contents before their directory: a directory that becomes read-only must be complete. */
  readonly directoryModes: readonly DirectoryModeTask[];
  /** Entries of the source that cannot be made, and why. Nothing below them is planned. */
  readonly conflicts: readonly Problem[];
  /** Entries of the source that are neither files, directories nor links. */
  readonly skipped: readonly Problem[];
  /** Files, directories and links that are equal already. */
  readonly unchanged: number;
  /** Entries that only the destination has and that stay. */
  readonly kept: number;
}

export interface FileTask {
  readonly path: string;
  readonly entry: FileEntry;
  /** What is to be set if the content is equal. */
  readonly attributes: Attributes;
}

export interface LinkTask {
  readonly path: string;
  readonly target: string;
}

export interface AttributeTask {
  readonly path: string;
  readonly attributes: Attributes;
}

interface DirectoryModeTask extends AttributeTask {
  /** Whether the directory is one of {@link Plan.directories}. */
  readonly isNew: boolean;
}

interface Problem {
  readonly path: string;
  readonly reason: string;
}

interface PlanOptions {
  /** Whether entries that only the destination has are deleted. */
  readonly deletes: boolean;
}

/**
 * Compares two trees. Without `deletes` a name of the destination that the source lacks stays, and so does a directory with something in
 * it where the source has a file or a link. A directory that holds ignored or unreadable names is never removed.
 */
export function planSync(source: Tree, destination: Tree, options: PlanOptions): Plan {
  return new Planner(source, destination, options).plan();
}

class Planner {
  readonly #source: Tree;
  readonly #destination: Tree;
  readonly #options: PlanOptions;
  /** Directories of the destination with something in them, and those that hold opaque entries at any depth. */
  readonly #filled = new Set<string>();
  readonly #holding = new Set<string>();
  /** Paths at and below which nothing is done. */
  readonly #untouched = new Set<string>();
  /** Directories of the destination that are removed because something else gets their name. */
  readonly #replaced = new Set<string>();

  readonly #clears: Removal[] = [];
  readonly #directories: string[] = [];
  readonly #copies: FileTask[] = [];
  readonly #comparisons: FileTask[] = [];
  readonly #links: LinkTask[] = [];
  readonly #attributes: AttributeTask[] = [];
  readonly #deletions: Removal[] = [];
  readonly #directoryModes: DirectoryModeTask[] = [];
  readonly #conflicts: Problem[] = [];
  readonly #skipped: Problem[] = [];
  #unchanged = 0;
  #kept = 0;

  constructor(source: Tree, destination: Tree, options: PlanOptions) {
    this.#source = source;
    this.#destination = destination;
    this.#options = options;
  }

  plan(): Plan {
    for (const [path, entry] of this.#destination) {
      this.#filled.add(parentOf(path));
      if (isOpaque(entry)) for (const above of ancestorsOf(path)) this.#holding.add(above);
    }
    for (const [path, wanted] of this.#source) this.#make(path, wanted);
    this.#removeRest();
    return {
      clears: this.#clears,
      directories: this.#directories,
      copies: this.#copies,
      comparisons: this.#comparisons,
      links: this.#links,
      attributes: this.#attributes,
      deletions: this.#deletions,
      directoryModes: this.#directoryModes.reverse(),
      conflicts: this.#conflicts,
      skipped: this.#skipped,
      unchanged: this.#unchanged,
      kept: this.#kept,
    };
  }

  #make(path: string, wanted: Entry): void {
    if (this.#untouched.has(parentOf(path))) {
      this.#untouched.add(path);
      return;
    }
    if (isOpaque(wanted)) {
      this.#untouched.add(path);
      if (wanted.kind === 'special') this.#skipped.push({ path, reason: SPECIAL });
      return;
    }
    const current = this.#destination.get(path);
    const obstacle = this.#obstacle(path, wanted, current);
    if (obstacle !== null) {
      this.#untouched.add(path);
      this.#conflicts.push({ path, reason: obstacle });
      return;
    }
    if (current?.kind === 'directory' && wanted.kind !== 'directory') this.#replaced.add(path);
    else if (current !== undefined && current.kind !== wanted.kind) {
      this.#clears.push({ path, kind: current.kind as Removal['kind'] });
    }
    if (wanted.kind === 'file') this.#makeFile(path, wanted, current);
    else if (wanted.kind === 'link') this.#makeLink(path, wanted.target, current);
    else this.#makeDirectory(path, wanted.mode, current);
  }

  /** Why what is at a path of the destination cannot be replaced; null when it can. */
  #obstacle(path: string, wanted: Entry, current: Entry | undefined): string | null {
    if (current === undefined) return null;
    if (isOpaque(current)) return IN_THE_WAY[current.kind];
    if (current.kind !== 'directory' || wanted.kind === 'directory') return null;
    if (this.#holding.has(path)) return 'a directory with ignored or unreadable files is in the way';
    if (!this.#filled.has(path) || this.#options.deletes) return null;
    return 'a directory that is not empty is in the way; --delete removes it';
  }

  #makeFile(path: string, entry: FileEntry, current: Entry | undefined): void {
    if (current?.kind !== 'file' || current.size !== entry.size) {
      this.#copies.push({ path, entry, attributes: {} });
      return;
    }
    const attributes = {
      ...(current.mode !== entry.mode && { mode: entry.mode }),
      ...(current.mtimeMs !== entry.mtimeMs && { mtimeMs: entry.mtimeMs }),
    };
    if (attributes.mtimeMs !== undefined) this.#comparisons.push({ path, entry, attributes });
    else if (attributes.mode !== undefined) this.#attributes.push({ path, attributes });
    else this.#unchanged++;
  }

  #makeLink(path: string, target: string, current: Entry | undefined): void {
    if (current?.kind === 'link' && current.target === target) this.#unchanged++;
    else this.#links.push({ path, target });
  }

  #makeDirectory(path: string, mode: number, current: Entry | undefined): void {
    const isNew = current?.kind !== 'directory';
    if (isNew) this.#directories.push(path);
    if (isNew || current.mode !== mode) this.#directoryModes.push({ path, attributes: { mode }, isNew });
    else this.#unchanged++;
  }

  /** Removes what the source lacks, contents before their directory, so the destination is visited backwards. */
  #removeRest(): void {
    const holdsKept = new Set<string>();
    for (const [path, entry] of [...this.#destination].reverse()) {
      const isReplaced = this.#isBelow(path, this.#replaced);
      if (this.#source.has(path) && !isReplaced) continue;
      const stays =
        isOpaque(entry) ||
        holdsKept.has(path) ||
        this.#isBelow(path, this.#untouched) ||
        !(this.#options.deletes || isReplaced);
      if (stays) {
        holdsKept.add(parentOf(path));
        if (!isOpaque(entry)) this.#kept++;
      } else {
        (isReplaced ? this.#clears : this.#deletions).push({ path, kind: entry.kind });
      }
    }
  }

  /** Whether a path or a directory above it is in the set. */
  #isBelow(path: string, set: ReadonlySet<string>): boolean {
    if (set.size === 0) return false;
    return set.has(path) || ancestorsOf(path).some((above) => set.has(above));
  }
}

const SPECIAL = 'it is no file, directory or link; --exclude ignores it';

const IN_THE_WAY = {
  ignored: 'an ignored name is in the way',
  unreadable: 'what has its name in the destination cannot be read',
  special: 'a socket, a pipe or a device is in the way',
} as const;
