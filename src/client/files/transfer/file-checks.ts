import type { ExecutorFileSystem, FileOptions } from '../../backend.ts';
import { HASH_PATHS_MAX_LENGTH, HASHES_PER_CALL } from '../../limits.ts';
import { failedWith } from '../file-errors.ts';
import type { FileCheck } from './sides.ts';

interface Waiting {
  readonly uri: string;
  resolve(check: FileCheck): void;
  reject(error: unknown): void;
}

/** Requests the hashes of many files, or their sizes. Those that are wanted while a request runs share the next one. */
export class FileChecks {
  readonly #files: ExecutorFileSystem;
  readonly #call: FileOptions;
  #waiting: Waiting[] = [];
  #running = 0;

  constructor(files: ExecutorFileSystem, call: FileOptions) {
    this.#files = files;
    this.#call = call;
  }

  check(uri: string): Promise<FileCheck> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ uri, resolve, reject });
      void this.#send();
    });
  }

  async #send(): Promise<void> {
    if (this.#running >= REQUESTS_IN_FLIGHT) return;
    this.#running++;
    // Everything that is wanted in this turn goes along.
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#checkAll(this.#nextBatch());
    this.#running--;
  }

  async #checkAll(batch: readonly Waiting[]): Promise<void> {
    try {
      const uris = batch.map(({ uri }) => uri);
      const outcomes = await this.#files.hash(uris, this.#call);
      for (const [index, { resolve, reject }] of batch.entries()) {
        const outcome = outcomes[index]!;
        if (outcome.error === undefined) resolve(outcome);
        else reject(outcome.error);
      }
    } catch (error) {
      for (const { uri, resolve, reject } of batch) {
        if (failedWith(error, 'unsupported')) this.#sizeOf(uri).then(resolve, reject);
        else reject(error);
      }
    }
  }

  async #sizeOf(uri: string): Promise<FileCheck> {
    return { sha256: null, size: (await this.#files.getMetadata(uri, this.#call)).size };
  }

  #nextBatch(): Waiting[] {
    let length = 0;
    const end = this.#waiting.findIndex(({ uri }, index) => {
      length += uri.length;
      return index === HASHES_PER_CALL || (index > 0 && length > HASH_PATHS_MAX_LENGTH);
    });
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }
}

/** A large file takes seconds to hash. The others do not wait for it. */
const REQUESTS_IN_FLIGHT = 4;
