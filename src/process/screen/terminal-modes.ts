import {
  effectOf,
  forEachSequence,
  lastResetOfColors,
  paramsOf,
  resetsPen,
  titleOf,
} from './escape-sequences.ts';
import { MAX_PRIVATE_MODES, MAX_TITLE_CHARACTERS } from './limits.ts';
import { Pen } from './pen.ts';

/** How much of the effect of some bytes {@link TerminalModes} have taken over, besides what the bytes draw. */
interface TakenModes {
  /** False after a sequence whose effect depends on the position of the cursor. Only the modes that it sets are kept then. */
  readonly independent: boolean;
  readonly endsInSequence: boolean;
}

/**
 * The modes, title and pen that dropped output has set, as the shortest sequences that set them again. Holds the last sequence of each
 * kind, in the order of their last use.
 */
export class TerminalModes {
  readonly #sequences = new Map<string, string>();
  readonly #pen = new Pen();

  /** Takes over what the bytes set. They must begin outside of a sequence. */
  take(bytes: Buffer): TakenModes {
    const lastReset = lastResetOfColors(bytes);
    if (lastReset !== null) {
      this.#takePen(bytes.subarray(lastReset));
      return { independent: true, endsInSequence: false };
    }
    let independent = true;
    let penFrom = -1;
    const end = forEachSequence(bytes, (start, end) => {
      const effect = effectOf(bytes, start, end);
      if (effect === 'pen' && (penFrom === -1 || resetsPen(bytes, start))) penFrom = start;
      else if (effect === 'mode') this.#keep(bytes, start, end);
      else if (effect === 'complex') {
        independent = false;
        this.#keepComplex(bytes, start, end);
      }
      return true;
    });
    if (penFrom !== -1) this.#takePen(bytes.subarray(penFrom));
    return { independent, endsInSequence: end < bytes.length };
  }

  clone(): TerminalModes {
    const copy = new TerminalModes();
    copy.take(this.toBytes());
    return copy;
  }

  toBytes(): Buffer {
    return Buffer.from([...this.#sequences.values(), this.#pen.sequence()].join(''));
  }

  #takePen(bytes: Buffer): void {
    forEachSequence(bytes, (start, end) => {
      if (effectOf(bytes, start, end) === 'pen') this.#pen.apply(paramsOf(bytes, start, end));
      return true;
    });
  }

  #keep(bytes: Buffer, start: number, end: number): void {
    const title = titleOf(bytes, start, end);
    if (bytes[start + 1] === 0x5d && title !== null) {
      this.#set('title', titleSequence(title));
      return;
    }
    const sequence = bytes.toString('latin1', start, end);
    if (sequence.startsWith('\x1b[?')) this.#keepModes(bytes, start, end);
    else if (sequence.startsWith('\x1b[')) this.#set(sequence.replace(/\d/g, '').slice(0, 8), sequence);
    else this.#set(end - start > 2 ? sequence.slice(0, 2) : 'keypad', sequence);
  }

  #keepModes(bytes: Buffer, start: number, end: number): void {
    const final = String.fromCharCode(bytes[end - 1]!);
    for (const mode of paramsOf(bytes, start, end).split(';')) {
      const number = Number(mode);
      const key = ALTERNATE_MODES.has(number) ? 'alternate' : `?${number}`;
      if (number <= MAX_MODE) this.#set(key, `\x1b[?${number}${final}`);
    }
  }

  #keepComplex(bytes: Buffer, start: number, end: number): void {
    const sequence = bytes.toString('latin1', start, end);
    if (sequence === '\x1bc') {
      this.#sequences.clear();
      this.#pen.reset();
      this.#set('reset', sequence);
    } else if (/^\x1b\[\?[\d;]*[hl]$/.test(sequence)) this.#keepModes(bytes, start, end);
    else if (/^\x1b\[\d*;?\d*r$/.test(sequence)) this.#set('margins', sequence);
    else if (sequence === '\x1b[!p') {
      this.#pen.reset();
      this.#set('softReset', sequence);
    } else if (/^\x1b\[[<=>][\d;]*u$/.test(sequence)) this.#set('keyboard', sequence);
  }

  #set(key: string, sequence: string): void {
    this.#sequences.delete(key);
    if (this.#sequences.size < MAX_PRIVATE_MODES) this.#sequences.set(key, sequence);
  }
}

/** A title of limited length, without characters that would end the sequence which sets it. */
export function cleanTitle(title: string): string {
  return cutText(title, MAX_TITLE_CHARACTERS).replace(/[\x00-\x1f\x7f-\x9f]/g, '');
}

/** Sets the title. */
export function titleSequence(title: string): string {
  return `\x1b]2;${cleanTitle(title)}\x07`;
}

/** The first characters, without half of a surrogate pair at the end. */
export function cutText(text: string, characters: number): string {
  return text.length <= characters ? text : text.slice(0, characters).replace(/[\ud800-\udbff]$/, '');
}

const ALTERNATE_MODES = new Set([47, 1047, 1049]);
const MAX_MODE = 65_535;
