import { FileError, refused } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { DISCOVERY_FILE_BYTES, DISCOVERY_ROOT_BYTES, DISCOVERY_WARNING_BYTES } from '../limits.ts';
import { isWithin, type NativePath } from '../native-path.ts';
import { uriFromPath } from '../path-uri.ts';
import { readUpTo } from '../read-up-to.ts';
import { utf8Problem } from '../utf8-problem.ts';

/** A text file of a capability root, as it is returned. */
export interface BundledFile {
  readonly path: string;
  readonly contents: string;
}

/** Whether links that lead out of a root are skipped or followed. */
export type LinkRule = 'contain' | 'follow';

interface FileLocation {
  readonly path: NativePath;
  readonly followSymlinks: boolean;
}

/** Reads the files of one root within its budget and that of the whole response. Every omitted file adds a warning. */
export class FileBundle {
  readonly warnings: string[] = [];
  readonly #files: FileSystem;
  readonly #root = new Budget(DISCOVERY_ROOT_BYTES, 'capability root bundle');
  readonly #answer: Budget;
  readonly #links: LinkRule;
  readonly #signal: AbortSignal;
  /** A cache of one entry: nearly all files are requested for the same directory. */
  #known: { readonly directory: NativePath; readonly real: NativePath } | null = null;

  constructor(files: FileSystem, answer: Budget, links: LinkRule, signal: AbortSignal) {
    this.#files = files;
    this.#answer = answer;
    this.#links = links;
    this.#signal = signal;
  }

  /**
   * Reads a file that the response contains `copies` times. Links that lead out of `directory` count as missing, with a warning.
   * Null when the file is missing or not a regular file, and for any error, which adds a warning.
   */
  async read(path: NativePath, directory: NativePath, copies = 1): Promise<BundledFile | null> {
    this.#signal.throwIfAborted();
    const uri = uriFromPath(path);
    const location = await this.#attempt('inspect', uri, () => this.#locate(path, directory));
    if (location === null) return null;
    const size = await this.#attempt('inspect', uri, () => this.#sizeOfRegular(location));
    if (size === null || this.#isTooLarge(size, uri, copies)) return null;
    const bytes = await this.#attempt('read', uri, () => this.#content(location));
    // The file may have grown, and the size of a file that the kernel generates means nothing.
    if (bytes === null || this.#isTooLarge(bytes.length, uri, copies)) return null;
    const problem = utf8Problem(bytes);
    if (problem !== null) return this.#leaveOut(`capability file ${uri} is not UTF-8: ${problem}`);
    this.#root.use(bytes.length);
    this.#answer.use(answerBytes(bytes.length, uri, copies));
    return { path: uri, contents: bytes.toString() };
  }

  /** A path without links is read without following links, so that none can be inserted in between. */
  async #locate(path: NativePath, directory: NativePath): Promise<FileLocation> {
    if (this.#links === 'follow') return { path, followSymlinks: true };
    const [real, realDirectory] = [
      await this.#files.canonicalize(path),
      await this.#realDirectory(directory),
    ];
    if (isWithin(real, realDirectory)) return { path: real, followSymlinks: false };
    throw refused(`it is a link that leads out of ${uriFromPath(directory)}`);
  }

  async #realDirectory(directory: NativePath): Promise<NativePath> {
    if (this.#known?.directory !== directory) {
      this.#known = { directory, real: await this.#files.canonicalize(directory) };
    }
    return this.#known.real;
  }

  async #sizeOfRegular({ path, ...links }: FileLocation): Promise<number | null> {
    const { isFile, size } = await this.#files.getMetadata(path, links);
    return isFile ? size : null;
  }

  async #content({ path, ...links }: FileLocation): Promise<Buffer> {
    const content = await this.#files.readFile(path, links);
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

  #isTooLarge(bytes: number, uri: string, copies: number): boolean {
    const objection =
      bytes > DISCOVERY_FILE_BYTES
        ? `capability file ${uri} exceeds the ${DISCOVERY_FILE_BYTES}-byte limit`
        : (this.#root.objection(bytes) ?? this.#answer.objection(answerBytes(bytes, uri, copies)));
    if (objection === null) return false;
    this.warnings.push(objection);
    return true;
  }

  #leaveOut(warning: string): null {
    this.warnings.push(warning);
    return null;
  }
}

/** What a file adds to a response. */
function answerBytes(bytes: number, uri: string, copies: number): number {
  return copies * (bytes + uri.length);
}

/** The first warnings, within their limit. The last one reports how many are missing. */
export function limitWarnings(warnings: string[]): string[] {
  const budget = new Budget(DISCOVERY_WARNING_BYTES, 'warnings');
  const end = warnings.findIndex((warning) => {
    budget.use(Buffer.byteLength(warning));
    return budget.objection(0) !== null;
  });
  return end < 0 ? warnings : [...warnings.slice(0, end), `${warnings.length - end} more warnings`];
}

/** A number of bytes that several files share. */
export class Budget {
  readonly #limit: number;
  readonly #owner: string;
  #used = 0;

  /** `owner` names in warnings what would become too large. */
  constructor(limit: number, owner: string) {
    this.#limit = limit;
    this.#owner = owner;
  }

  /** Why the bytes do not fit; null when they do. */
  objection(bytes: number): string | null {
    return bytes > this.#limit - this.#used ? `${this.#owner} exceeds the ${this.#limit}-byte limit` : null;
  }

  use(bytes: number): void {
    this.#used += bytes;
  }

  /** Uses the bytes of a value as JSON. Returns why they do not fit; null when they do. */
  useJson(value: object): string | null {
    const bytes = Buffer.byteLength(JSON.stringify(value));
    const objection = this.objection(bytes);
    if (objection === null) this.use(bytes);
    return objection;
  }
}
