import { FileError } from '../errors.ts';
import type { FileContent, FileSystem } from '../file-system.ts';
import { DISCOVERY_FILE_BYTES, DISCOVERY_ROOT_BYTES } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { uriFromPath } from '../path-uri.ts';
import { Budget } from './budget.ts';
import { utf8Problem } from './utf8-problem.ts';

/** A text file of a capability root, as it is told. */
export interface BundledFile {
  readonly path: string;
  readonly contents: string;
}

/** The files of one root that are told, within its budget and that of the whole answer. What is left out leaves a warning. */
export class FileBundle {
  readonly warnings: string[] = [];
  readonly #files: FileSystem;
  readonly #budgets: readonly Budget[];
  readonly #signal: AbortSignal;

  constructor(files: FileSystem, answer: Budget, signal: AbortSignal) {
    this.#files = files;
    this.#budgets = [new Budget(DISCOVERY_ROOT_BYTES, 'capability root bundle'), answer];
    this.#signal = signal;
  }

  /** The file, links followed. Null when it is missing or no regular file, which is nothing special, or with a warning. */
  async read(path: NativePath): Promise<BundledFile | null> {
    this.#signal.throwIfAborted();
    const uri = uriFromPath(path);
    const size = await this.#attempt('inspect', uri, () => this.#sizeOfRegular(path));
    if (size === null || this.#isTooLarge(size, uri)) return null;
    const bytes = await this.#attempt('read', uri, () => this.#content(path));
    // It may have grown since; and of a file that the kernel makes up the size says nothing.
    if (bytes === null || this.#isTooLarge(bytes.length, uri)) return null;
    const problem = utf8Problem(bytes);
    if (problem !== null) return this.#leaveOut(`capability file ${uri} is not UTF-8: ${problem}`);
    for (const budget of this.#budgets) budget.use(bytes.length);
    return { path: uri, contents: bytes.toString() };
  }

  async #sizeOfRegular(path: NativePath): Promise<number | null> {
    const { isFile, size } = await this.#files.getMetadata(path, { followSymlinks: true });
    return isFile ? size : null;
  }

  async #content(path: NativePath): Promise<Buffer> {
    const content = await this.#files.readFile(path, { followSymlinks: true });
    try {
      return await readUpTo(content, DISCOVERY_FILE_BYTES + 1);
    } finally {
      await content.close();
    }
  }

  async #attempt<T>(verb: string, uri: string, work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      if (error.kind === 'notFound') return null;
      return this.#leaveOut(`failed to ${verb} capability file ${uri}: ${error.message}`);
    }
  }

  #isTooLarge(bytes: number, uri: string): boolean {
    const objection =
      bytes > DISCOVERY_FILE_BYTES
        ? `capability file ${uri} exceeds the ${DISCOVERY_FILE_BYTES}-byte limit`
        : this.#budgets.map((budget) => budget.objection(bytes)).find((text) => text !== null);
    if (objection == null) return false;
    this.warnings.push(objection);
    return true;
  }

  #leaveOut(warning: string): null {
    this.warnings.push(warning);
    return null;
  }
}

/** The first `limit` bytes of a file that usually is as long as it said. */
async function readUpTo(content: FileContent, limit: number): Promise<Buffer> {
  const first = Buffer.allocUnsafeSlow(Math.min(content.size + 1, limit));
  const length = await content.read(first);
  if (length < first.length || length === limit) return first.subarray(0, length);
  const rest = Buffer.allocUnsafeSlow(limit - length);
  return Buffer.concat([first, rest.subarray(0, await content.read(rest))]);
}
