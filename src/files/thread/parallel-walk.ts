import type { WalkOptions, WalkResult } from '../file-system.ts';
import type { FileThreads } from '../file-threads.ts';
import { WALK_RESPONSE_BYTES, WALK_SHARED_DIRECTORIES } from '../limits.ts';
import { checkWalkLimits, type WalkRest, type WalkStart, type WalkUsage } from '../local/walk.ts';
import type { NativePath } from '../native-path.ts';
import { EncodedWalk } from './encoded-walk.ts';
import type { ThreadAnswers } from './thread-messages.ts';

/**
 * Walks a tree on one thread, and on all free threads where many directories have the same depth. Resolves with null when no thread
 * is free or one crashes. Rejects like any walk.
 */
export async function walkOnThreads(
  threads: FileThreads,
  path: NativePath,
  options: WalkOptions,
  signal: AbortSignal,
): Promise<EncodedWalk | null> {
  checkWalkLimits(options);
  return await new ParallelWalk(threads, options, signal).run(path);
}

type Part = ThreadAnswers['walk'];

class ParallelWalk {
  readonly #threads: FileThreads;
  readonly #options: WalkOptions;
  readonly #signal: AbortSignal;
  readonly #texts: ArrayBuffer[] = [];
  readonly #errors: WalkResult['errors'][number][] = [];
  #truncated = false;
  /** What the remaining parts may use. */
  #left: WalkUsage;

  constructor(threads: FileThreads, options: WalkOptions, signal: AbortSignal) {
    this.#threads = threads;
    this.#options = options;
    this.#signal = signal;
    this.#left = {
      entries: options.maxEntries,
      directories: options.maxDirectories,
      responseBytes: WALK_RESPONSE_BYTES,
    };
  }

  async run(path: NativePath): Promise<EncodedWalk | null> {
    // Where links are followed, a walk may reach a directory twice. Only a single thread can detect that.
    const stopsAt = this.#options.followDirectorySymlinks ? NO_LIMIT : WALK_SHARED_DIRECTORIES;
    let parts = [await this.#part({ path }, stopsAt)];
    for (;;) {
      if (!parts.every((part) => part !== null)) return null;
      const rest = this.#take(parts);
      if (rest === null) break;
      parts = await this.#resume(rest);
    }
    return new EncodedWalk(this.#texts, { errors: this.#errors, truncated: this.#truncated });
  }

  async #resume(rest: WalkRest): Promise<(Part | null)[]> {
    const { length } = rest.directories;
    if (length < WALK_SHARED_DIRECTORIES) return [await this.#part(rest, WALK_SHARED_DIRECTORIES)];
    if (this.#threads.free > 1) {
      const parts = await this.#shared(rest, Math.ceil(length / this.#threads.free));
      if (this.#areWithinLimits(parts)) return parts;
    }
    const alone = this.#part(rest, NO_LIMIT);
    // So that the next walk finds a free thread.
    this.#threads.prepare();
    return [await alone];
  }

  /** Each thread reads its share of the directories and nothing below them. */
  #shared({ directories, depth }: WalkRest, each: number): Promise<(Part | null)[]> {
    const parts: Promise<Part | null>[] = [];
    for (let start = 0; start < directories.length; start += each) {
      parts.push(this.#part({ directories: directories.slice(start, start + each), depth }, 1));
    }
    return Promise.all(parts);
  }

  /** The point where a limit ends the walk depends on all earlier entries, so parts that exceed a limit together are useless. */
  #areWithinLimits(parts: readonly (Part | null)[]): boolean {
    if (parts.some((part) => part?.truncated)) return false;
    const { entries, directories, responseBytes } = this.#leftAfter(parts);
    return entries >= 0 && directories >= 0 && responseBytes >= 0;
  }

  #part(start: WalkStart, stopsAt: number): Promise<Part | null> {
    const known = 'path' in start ? 0 : start.directories.length;
    const { entries: maxEntries, directories, responseBytes } = this.#left;
    const options = { ...this.#options, maxEntries, maxDirectories: directories + known };
    return this.#threads.run(
      { kind: 'walk', start, options, limits: { responseBytes, stopsAt } },
      this.#signal,
    );
  }

  /** Adds the results of parts and returns where to continue. */
  #take(parts: readonly Part[]): WalkRest | null {
    this.#left = this.#leftAfter(parts);
    for (const { text, errors, truncated } of parts) {
      this.#texts.push(text);
      for (const error of errors) this.#errors.push(error);
      this.#truncated ||= truncated;
    }
    const rests = parts.flatMap(({ rest }) => rest ?? []);
    if (rests.length === 0) return null;
    return { directories: rests.flatMap(({ directories }) => directories), depth: rests[0]!.depth };
  }

  #leftAfter(parts: readonly (Part | null)[]): WalkUsage {
    const left = { ...this.#left };
    for (const part of parts) {
      if (part === null) continue;
      left.entries -= part.used.entries;
      left.directories -= part.used.directories;
      left.responseBytes -= part.used.responseBytes;
    }
    return left;
  }
}

const NO_LIMIT = Number.POSITIVE_INFINITY;
