import type { WalkOptions, WalkResult } from '../file-system.ts';
import type { FileThreads } from '../file-threads.ts';
import { WALK_RESPONSE_BYTES, WALK_SHARED_DIRECTORIES } from '../limits.ts';
import { checkWalkLimits, type WalkRest, type WalkSpent, type WalkStart } from '../local/walk.ts';
import type { NativePath } from '../native-path.ts';
import { EncodedWalk } from './encoded-walk.ts';
import type { ThreadAnswers } from './thread-messages.ts';

/**
 * A walk by threads: by one, and where there are many directories at the same depth by all that are free. Resolves with null when
 * there is none or one has broken; throws as any walk does.
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

type Piece = ThreadAnswers['walk'];

class ParallelWalk {
  readonly #threads: FileThreads;
  readonly #options: WalkOptions;
  readonly #signal: AbortSignal;
  readonly #texts: ArrayBuffer[] = [];
  readonly #errors: WalkResult['errors'][number][] = [];
  #truncated = false;
  /** What the pieces to come may spend. */
  #left: WalkSpent;

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
    // Where links are followed, a directory may be met twice, and only one who has seen all of them can tell.
    const stopsAt = this.#options.followDirectorySymlinks ? TO_THE_END : WALK_SHARED_DIRECTORIES;
    let pieces = [await this.#piece({ path }, stopsAt)];
    for (;;) {
      if (!pieces.every((piece) => piece !== null)) return null;
      const rest = this.#take(pieces);
      if (rest === null) break;
      pieces = await this.#goOn(rest);
    }
    return new EncodedWalk(this.#texts, { errors: this.#errors, truncated: this.#truncated });
  }

  async #goOn(rest: WalkRest): Promise<(Piece | null)[]> {
    const { length } = rest.directories;
    if (length < WALK_SHARED_DIRECTORIES) return [await this.#piece(rest, WALK_SHARED_DIRECTORIES)];
    if (this.#threads.free > 1) {
      const pieces = await this.#shared(rest, Math.ceil(length / this.#threads.free));
      if (this.#areWithinLimits(pieces)) return pieces;
    }
    const alone = this.#piece(rest, TO_THE_END);
    // The next walk finds another one free.
    this.#threads.prepare();
    return [await alone];
  }

  /** Each thread reads as many directories as it gets and none below them. */
  #shared({ directories, depth }: WalkRest, each: number): Promise<(Piece | null)[]> {
    const pieces: Promise<Piece | null>[] = [];
    for (let start = 0; start < directories.length; start += each) {
      pieces.push(this.#piece({ directories: directories.slice(start, start + each), depth }, 1));
    }
    return Promise.all(pieces);
  }

  /** Where a limit ends a walk depends on all that is before: pieces that reach one together say nothing. */
  #areWithinLimits(pieces: readonly (Piece | null)[]): boolean {
    if (pieces.some((piece) => piece?.truncated)) return false;
    const { entries, directories, responseBytes } = this.#leftAfter(pieces);
    return entries >= 0 && directories >= 0 && responseBytes >= 0;
  }

  #piece(start: WalkStart, stopsAt: number): Promise<Piece | null> {
    const known = 'path' in start ? 0 : start.directories.length;
    const { entries: maxEntries, directories, responseBytes } = this.#left;
    const options = { ...this.#options, maxEntries, maxDirectories: directories + known };
    return this.#threads.run(
      { kind: 'walk', start, options, reach: { responseBytes, stopsAt } },
      this.#signal,
    );
  }

  /** Adds what pieces have found, and returns where to go on. */
  #take(pieces: readonly Piece[]): WalkRest | null {
    this.#left = this.#leftAfter(pieces);
    for (const { text, errors, truncated } of pieces) {
      this.#texts.push(text);
      for (const error of errors) this.#errors.push(error);
      this.#truncated ||= truncated;
    }
    const rests = pieces.flatMap(({ rest }) => rest ?? []);
    if (rests.length === 0) return null;
    return { directories: rests.flatMap(({ directories }) => directories), depth: rests[0]!.depth };
  }

  #leftAfter(pieces: readonly (Piece | null)[]): WalkSpent {
    const left = { ...this.#left };
    for (const piece of pieces) {
      if (piece === null) continue;
      left.entries -= piece.spent.entries;
      left.directories -= piece.spent.directories;
      left.responseBytes -= piece.spent.responseBytes;
    }
    return left;
  }
}

const TO_THE_END = Number.POSITIVE_INFINITY;
