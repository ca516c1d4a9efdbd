import { setImmediate } from 'node:timers/promises';
import { ANY_DIRECTORIES, type CharacterSet, Glob, type NamePattern, STAR } from './glob.ts';
import { GLOB_CACHED_CHARACTERS, GLOB_STEPS_PER_TURN } from './limits.ts';

/**
 * Globs that are matched together, by a nondeterministic automaton whose states are the bits of a few words. Each character of a path
 * takes one step per word, for any globs and any path, so hostile ones are not slower than others. A backtracking regular expression
 * could block the server.
 *
 * A state is a position in a glob. A character moves each active position that accepts it to the next one. A `*` keeps its position
 * active for every character but a slash, and `**` for every character.
 */
export class GlobSet {
  readonly #words: number;
  /** The positions that accept an ASCII character, by character. */
  readonly #accepts: Int32Array;
  /** The positions that accept every other character, and those of particular ones. */
  readonly #acceptOther: Int32Array;
  readonly #characters = new Map<number, number[]>();
  readonly #sets: { readonly position: number; readonly set: CharacterSet }[] = [];
  readonly #cache = new Map<number, Int32Array>();
  /** Positions that stay active for every character, or for every one but a slash. */
  readonly #stayAlways: Int32Array;
  readonly #stayInName: Int32Array;
  /** Positions whose successor becomes active together with them, because `**` may stand for no directory. */
  readonly #skipped: Int32Array;
  readonly #starts: Int32Array;
  /** The ends of all globs, and of those that match directories only. */
  readonly #ends: Int32Array;
  readonly #directoryEnds: Int32Array;

  constructor(globs: readonly Glob[]) {
    const positions = globs.reduce((sum, { names }) => sum + positionsOf(names), 0);
    this.#words = Math.ceil(positions / WORD_BITS);
    const bits = () => new Int32Array(this.#words);
    this.#accepts = new Int32Array(ASCII * this.#words);
    [this.#acceptOther, this.#stayAlways, this.#stayInName, this.#skipped] = [bits(), bits(), bits(), bits()];
    [this.#starts, this.#ends, this.#directoryEnds] = [bits(), bits(), bits()];
    let next = 0;
    for (const glob of globs) next = this.#add(glob, next);
  }

  /** Parses globs. Throws FileError. */
  static parse(texts: readonly string[]): GlobSet {
    return new GlobSet(Glob.parseAll(texts));
  }

  /** The number of steps that each character of a path takes. */
  get stepsPerCharacter(): number {
    return this.#words;
  }

  /** Whether a glob matches the whole path. It is relative to the root, with single slashes between its names. */
  matches(path: string, isDirectory: boolean): boolean {
    return this.#matches(path, isDirectory, null);
  }

  /** Whether a glob matches a file, or a directory on the way to it. */
  matchesFileOrAncestor(path: string): boolean {
    return this.#matches(path, false, this.#ends);
  }

  /** Whether a glob matches a file, or one that matches directories only matches a directory on the way to it. */
  matchesFileOrAncestorAsDirectory(path: string): boolean {
    return this.#matches(path, false, this.#directoryEnds);
  }

  #matches(path: string, isDirectory: boolean, atSlash: Int32Array | null): boolean {
    if (this.#words === 0) return false;
    const active = this.#run(path, atSlash);
    if (active === null) return true;
    return this.#ends.some((ends, word) => {
      const wanted = isDirectory ? ends : ends & ~this.#directoryEnds[word]!;
      return (active[word]! & wanted) !== 0;
    });
  }

  /** The active positions after the path. Null when one of `atSlash` was active before a slash. */
  #run(path: string, atSlash: Int32Array | null): Int32Array | null {
    const words = this.#words;
    const active = this.#starts.slice();
    const skippable = this.#skipped;
    for (let index = 0; index < path.length; index++) {
      const code = path.codePointAt(index)!;
      if (code > 0xffff) index++;
      const isSlash = code === SLASH;
      if (isSlash && atSlash?.some((ends, word) => (ends & active[word]!) !== 0)) return null;
      const accepts = code < ASCII ? this.#accepts : this.#acceptsOther(code);
      const offset = code < ASCII ? code * words : 0;
      const stay = isSlash ? this.#stayAlways : this.#stayInName;
      let carry = 0;
      let skippedCarry = 0;
      for (let word = 0; word < words; word++) {
        const before = active[word]!;
        if ((before | carry | skippedCarry) === 0) continue;
        const accepted = before & accepts[offset + word]!;
        const moved = (accepted << 1) | carry;
        const skipped = moved & skippable[word]!;
        active[word] = moved | (before & stay[word]!) | (skipped << 1) | skippedCarry;
        carry = accepted >>> LAST_BIT;
        skippedCarry = skipped >>> LAST_BIT;
      }
    }
    return active;
  }

  /** The positions that accept a character outside ASCII. */
  #acceptsOther(code: number): Int32Array {
    const cached = this.#cache.get(code);
    if (cached !== undefined) return cached;
    const accepts = this.#acceptOther.slice();
    for (const position of this.#characters.get(code) ?? []) add(accepts, position);
    for (const { position, set } of this.#sets) if (isMember(set, code)) add(accepts, position);
    if (this.#cache.size >= GLOB_CACHED_CHARACTERS) this.#cache.clear();
    this.#cache.set(code, accepts);
    return accepts;
  }

  /** Adds a glob from a position on. Returns the position after it. */
  #add({ names, directoriesOnly }: Glob, start: number): number {
    let at = start;
    add(this.#starts, at);
    names.forEach((name, index) => {
      const isLast = index === names.length - 1;
      if (name === ANY_DIRECTORIES) {
        // A final `**` matches everything below, but at least one name.
        if (isLast) this.#acceptSet(at++, ANYTHING);
        this.#stay(at, true);
        if (isLast) return;
        if (at === start) add(this.#starts, at + 1);
        add(this.#skipped, at);
        this.#accept(at++, SLASH);
        return;
      }
      for (const token of name) {
        if (token === STAR) this.#stay(at, false);
        else if ('character' in token) this.#accept(at++, token.character.codePointAt(0)!);
        else this.#acceptSet(at++, token);
      }
      if (!isLast) this.#accept(at++, SLASH);
    });
    add(this.#ends, at);
    if (directoriesOnly) add(this.#directoryEnds, at);
    return at + 1;
  }

  #stay(position: number, acrossNames: boolean): void {
    add(this.#stayInName, position);
    if (acrossNames) add(this.#stayAlways, position);
  }

  #accept(position: number, code: number): void {
    if (code < ASCII) add(this.#accepts, code * this.#words * WORD_BITS + position);
    else {
      const positions = this.#characters.get(code) ?? [];
      positions.push(position);
      this.#characters.set(code, positions);
    }
  }

  #acceptSet(position: number, set: CharacterSet): void {
    for (let code = 0; code < ASCII; code++)
      if (code !== SLASH && isMember(set, code)) this.#accept(position, code);
    if (set.ranges.some(([, last]) => last >= ASCII)) this.#sets.push({ position, set });
    else if (set.negated) add(this.#acceptOther, position);
  }
}

/**
 * Bounds the work of matching many paths. Other requests get a turn after {@link GLOB_STEPS_PER_TURN} steps, and `exceeded` is thrown
 * after `maxSteps`.
 */
export class MatchBudget {
  readonly #maxSteps: number;
  readonly #exceeded: () => Error;
  #steps = 0;
  #turnSteps = 0;

  constructor(maxSteps: number, exceeded: () => Error) {
    this.#maxSteps = maxSteps;
    this.#exceeded = exceeded;
  }

  spend(steps: number): void {
    this.#turnSteps += steps;
    this.#steps += steps;
    if (this.#steps > this.#maxSteps) throw this.#exceeded();
  }

  /** The next turn of the event loop, when this one had its share; otherwise null. */
  pause(): Promise<void> | null {
    if (this.#turnSteps < GLOB_STEPS_PER_TURN) return null;
    this.#turnSteps = 0;
    return setImmediate();
  }

  /** Forgets the steps so far, for the next operation. */
  reset(): void {
    this.#steps = 0;
  }
}

const WORD_BITS = 32;
const LAST_BIT = WORD_BITS - 1;
const ASCII = 128;
const SLASH = 0x2f;
const ANYTHING: CharacterSet = { negated: true, ranges: [] };

function add(bits: Int32Array, position: number): void {
  const word = Math.floor(position / WORD_BITS);
  bits[word] = bits[word]! | (1 << (position % WORD_BITS));
}

function isMember({ ranges, negated }: CharacterSet, code: number): boolean {
  for (let index = 0; index < ranges.length; index++) {
    const range = ranges[index]!;
    if (range[0] <= code && code <= range[1]) return !negated;
  }
  return negated;
}

/** At most how many positions a glob has: its tokens, the slashes between its names, a final `**` and its end. */
function positionsOf(names: readonly NamePattern[]): number {
  return names.reduce((sum, name) => sum + (name?.length ?? 0) + 1, 2);
}
