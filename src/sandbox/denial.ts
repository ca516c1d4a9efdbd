import { DENIAL_PHRASES, SECCOMP_EXIT_CODE } from '../base/denial-phrases.ts';
import type { DenialDetector } from '../process/managed-process.ts';
import type { StreamName } from '../process/spawn/spawner.ts';
import { DENIAL_WINDOW_BYTES } from './linux/limits.ts';

/**
 * Guesses whether a sandboxed program failed because of its sandbox, as the reference does. A failure counts as denied in two cases: the
 * last megabyte of output, over all streams, contains one of a few phrases within one stream, or the exit code is that of a forbidden
 * system call. Scans the output as it arrives and keeps only the last few bytes of each stream.
 */
export class DenialScanner implements DenialDetector {
  readonly #tails = new Map<StreamName, Tail>();
  /** Bytes of all streams so far. */
  #total = 0;
  /** The offset of the output chunk in which the latest phrase starts. */
  #found = Number.NEGATIVE_INFINITY;

  output(stream: StreamName, bytes: Buffer): void {
    if (bytes.length === 0) return;
    const text = bytes.toString('latin1');
    const before = this.#tails.get(stream) ?? NO_TAIL;
    if (PHRASES.test(text)) this.#found = this.#total;
    else this.#searchAcross(before, text);
    this.#tails.set(stream, tailOf(before, text, this.#total));
    this.#total += bytes.length;
  }

  denied(exitCode: number): boolean {
    if (exitCode === 0) return false;
    return exitCode === SECCOMP_EXIT_CODE || this.#total - this.#found <= DENIAL_WINDOW_BYTES;
  }

  /** Searches for a phrase that starts in an earlier chunk of the stream. */
  #searchAcross(before: Tail, text: string): void {
    const seam = before.text + text.slice(0, LONGEST_PHRASE - 1);
    for (const match of seam.matchAll(ALL_PHRASES)) {
      this.#found = Math.max(this.#found, before.origins[match.index] ?? Number.NEGATIVE_INFINITY);
    }
  }
}

/** The end of a stream, in which a phrase may start. */
interface Tail {
  readonly text: string;
  /** For each of its bytes, the offset of the output chunk that it came with. */
  readonly origins: readonly number[];
}

const NO_TAIL: Tail = { text: '', origins: [] };

const PHRASES = new RegExp(DENIAL_PHRASES.join('|'), 'i');
const ALL_PHRASES = new RegExp(PHRASES, 'gi');
const LONGEST_PHRASE = Math.max(...DENIAL_PHRASES.map((word) => word.length));

function tailOf(before: Tail, text: string, origin: number): Tail {
  const kept = Math.max(0, LONGEST_PHRASE - 1 - text.length);
  const older =
    kept === 0 ? NO_TAIL : { text: before.text.slice(-kept), origins: before.origins.slice(-kept) };
  const newer = text.slice(1 - LONGEST_PHRASE);
  return { text: older.text + newer, origins: [...older.origins, ...Array.from(newer, () => origin)] };
}
