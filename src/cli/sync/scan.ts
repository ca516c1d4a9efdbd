import { RunError } from '../failures.ts';
import { IGNORE_FILES, type IgnoreRules } from './ignore-rules.ts';
import { MAX_ENTRIES, MAX_IGNORE_FILE_BYTES } from './limits.ts';
import type { Named, Side } from './side.ts';
import { type Entry, joined, type Tree } from './tree.ts';

/** Receives what could not be read. */
type OnProblem = (path: string, error: Error) => void;

/** Reads trees for one pass. The ignore files of the source decide for both sides. */
export class Scanner {
  readonly #rules: IgnoreRules;
  readonly #onProblem: OnProblem;
  /** Directories that are ignored. */
  readonly ignoredDirectories: string[] = [];
  #entries = 0;

  constructor(rules: IgnoreRules, onProblem: OnProblem) {
    this.#rules = rules;
    this.#onProblem = onProblem;
  }

  /** Adds everything below `directory` to the tree. A root that cannot be read is an error. */
  async source(side: Side, tree: Map<string, Entry>, directory = ''): Promise<void> {
    await this.#scan(side, tree, directory, () => true);
  }

  /**
   * The same for the destination. A directory that the source does not have keeps the rules of its own ignore files, so that
   * --delete does not remove what they protect.
   */
  async destination(side: Side, tree: Map<string, Entry>, source: Tree, directory = ''): Promise<void> {
    await this.#scan(side, tree, directory, (path) => path !== '' && source.get(path)?.kind !== 'directory');
  }

  async #scan(
    side: Side,
    tree: Map<string, Entry>,
    root: string,
    readsRules: (directory: string) => boolean,
  ): Promise<void> {
    for (let level = [root]; level.length > 0; ) {
      const listings = await side.list(level);
      const next: string[] = [];
      for (const [index, directory] of level.entries()) {
        try {
          const entries = listings[index]!;
          if (entries instanceof Error) throw entries;
          this.#rules.enter(directory);
          if (readsRules(directory)) await this.#readRules(side, directory, entries);
          for (const below of this.#add(tree, directory, entries)) next.push(below);
        } catch (error) {
          if (directory === '' || isFatal(error)) throw error;
          tree.set(directory, { kind: 'unreadable' });
          this.#onProblem(directory, error as Error);
        }
      }
      level = next;
    }
  }

  /** Returns the directories to list. */
  #add(tree: Map<string, Entry>, directory: string, entries: readonly Named[]): string[] {
    const directories: string[] = [];
    this.#entries += entries.length;
    if (this.#entries > MAX_ENTRIES) {
      throw new RunError(`there are more than ${MAX_ENTRIES} files; synchronize a part, or use --exclude`);
    }
    // In the order of names, so that the output is reproducible.
    for (const { name, entry } of [...entries].sort((one, other) => (one.name < other.name ? -1 : 1))) {
      const path = joined(directory, name);
      const isDirectory = entry.kind === 'directory';
      if (this.#rules.ignores(path, isDirectory)) {
        tree.set(path, { kind: 'ignored' });
        if (isDirectory) this.ignoredDirectories.push(path);
      } else {
        tree.set(path, entry);
        if (isDirectory) directories.push(path);
      }
    }
    return directories;
  }

  async #readRules(side: Side, directory: string, entries: readonly Named[]): Promise<void> {
    if (entries.some(({ name }) => name === '.git')) this.#rules.addRepository(directory);
    for (const { name, entry } of entries) {
      if (entry.kind !== 'file' || !IGNORE_FILES.some((file) => file === name)) continue;
      const path = joined(directory, name);
      const text = await side.readSmall(path, MAX_IGNORE_FILE_BYTES);
      if (text === null) throw new Error(`${name} has more than ${MAX_IGNORE_FILE_BYTES} bytes`);
      this.#rules.addFile(path, text);
    }
  }
}

/** Whether an error concerns more than one file: the connection is gone, or the command was interrupted. */
export function isFatal(error: unknown): boolean {
  const { name, kind } = error as Error & { kind?: string };
  return (
    name === 'AbortError' ||
    name === 'RunError' ||
    (name === 'ClientError' && kind === 'aborted') ||
    isConnectionLoss(error)
  );
}

/** Whether there is no connection any more. */
export function isConnectionLoss(error: unknown): boolean {
  const { name, kind } = error as Error & { kind?: string };
  return name === 'ClientError' && LOST.has(kind ?? '');
}

const LOST: ReadonlySet<string> = new Set(['disconnected', 'brokenPipe', 'closed']);
