import { OUTPUT_READ_BYTES } from '../limits.ts';
import type { TerminalSize } from '../terminal-size.ts';
import { isDrawable } from './drawable.ts';
import type { DrawnScreen, DrawScreen, ScreenStart, TerminalInput } from './drawn-screen.ts';
import type { FoldBudget } from './fold-budget.ts';
import { EVICTED_HARD_BYTES, EVICTED_SOFT_BYTES, MAX_REDRAW_BYTES, MAX_RESIZES } from './limits.ts';
import { PendingOutput } from './pending-output.ts';
import { findScrolledOff } from './scrolled-off.ts';
import { TerminalModes } from './terminal-modes.ts';

/** How much evicted output of one terminal is kept. */
export interface EvictionLimits {
  /** From here on the server looks for what it can drop or fold. */
  readonly softBytes: number;
  /** What exceeds this is dropped. */
  readonly hardBytes: number;
}

export const EVICTION_LIMITS: EvictionLimits = {
  softBytes: EVICTED_SOFT_BYTES,
  hardBytes: EVICTED_HARD_BYTES,
};

/** What a screen is drawn from: a screen, and what came after it. */
export interface ScreenHistory {
  readonly start: ScreenStart;
  readonly inputs: readonly TerminalInput[];
  /** {@link DrawnScreen.scrollsFully} of the start. */
  readonly scrollsFully: boolean;
}

/**
 * The screen of a terminal as it was where its retained output begins. It receives the output that leaves the log, and keeps what the
 * screen depends on:
 * - Output that scrolled off is dropped, except for the modes that it set.
 * - Other output is folded: a headless terminal reads it, and the bytes that draw its screen replace it.
 * - Output that comes faster than it may be folded is dropped, except for the modes that it set. The screen is no longer exact then.
 */
export class EvictedScreen {
  readonly #limits: EvictionLimits;
  readonly #budget: FoldBudget;
  readonly #enqueue: (job: () => Promise<void>) => void;
  readonly #drawScreen: DrawScreen;
  /** The order is: start, what is being folded, what dropped output has set, pending output. */
  #start: ScreenStart;
  #scrollsFully = true;
  #folding: readonly TerminalInput[] | null = null;
  #dropped: DroppedOutput | null = null;
  readonly #pending: PendingOutput;
  #size: TerminalSize;
  #reduceAt: number;
  /** Increases with every {@link replace}, which makes a fold in progress useless. */
  #generation = 0;

  /** Folding runs as a job. `enqueue` runs the jobs of a terminal one after the other. */
  constructor(
    size: TerminalSize,
    enqueue: (job: () => Promise<void>) => void,
    limits: EvictionLimits,
    budget: FoldBudget,
    drawScreen: DrawScreen,
  ) {
    this.#drawScreen = drawScreen;
    this.#limits = limits;
    this.#budget = budget;
    this.#enqueue = enqueue;
    this.#size = size;
    this.#pending = new PendingOutput(limits.hardBytes);
    this.#start = { size, input: [], exact: true };
    this.#reduceAt = limits.softBytes;
  }

  get history(): ScreenHistory {
    const folding = this.#folding ?? [];
    const scrollsFully = this.#scrollsFully && this.#folding === null;
    const pending = this.#pending.inputs();
    if (this.#dropped === null) return { start: this.#start, inputs: [...folding, ...pending], scrollsFully };
    return { start: this.#startAfter(folding, this.#dropped), inputs: pending, scrollsFully };
  }

  get retainedBytes(): number {
    const inputs = [...this.#start.input, ...(this.#folding ?? [])];
    return inputs.reduce(
      (bytes, input) => bytes + (Buffer.isBuffer(input) ? input.length : 0),
      this.#pending.allocatedBytes,
    );
  }

  /** Receives output that leaves the log. Copies it. */
  append(bytes: Buffer): void {
    if (isZero(bytes)) return;
    const { hardBytes } = this.#limits;
    for (let from = 0; from < bytes.length; from += hardBytes) {
      this.#pending.append(bytes.subarray(from, from + hardBytes));
      if (this.#pending.length >= this.#reduceAt) this.#reduce();
    }
  }

  resize(size: TerminalSize): void {
    if (this.#pending.resizes >= MAX_RESIZES) this.#drop();
    this.#size = size;
    this.#pending.resize(size);
  }

  /** Replaces everything by a screen that was drawn from it and from output after it. */
  replace({ size, redraw, exact, scrollsFully }: DrawnScreen): void {
    this.#generation++;
    this.#folding = null;
    this.#dropped = null;
    this.#pending.clear();
    this.#size = size;
    this.#begin(size, redraw, exact, scrollsFully);
  }

  /** From now on the screen is not exact. */
  loseExactness(): void {
    this.#start = { ...this.#start, exact: false };
    if (this.#dropped !== null) this.#dropped = { ...this.#dropped, exact: false };
  }

  #reduce(): void {
    if (this.#folding === null) {
      if (this.#dropScrolledOff() || this.#fold()) {
        // Twice what is left, so that the same lines are not looked at again and again.
        const { softBytes, hardBytes } = this.#limits;
        this.#reduceAt = Math.min(hardBytes, Math.max(softBytes, 2 * this.#pending.length));
        if (this.#pending.length < hardBytes) return;
      }
    }
    if (this.#pending.length >= this.#limits.hardBytes) this.#drop();
    this.#reduceAt = Math.min(this.#limits.hardBytes, this.#pending.length + this.#limits.softBytes);
  }

  #dropScrolledOff(): boolean {
    const bytes = this.#pending.unresized();
    if (bytes === null || !this.#scrollsFully) return false;
    const modes = this.#dropped?.modes.clone() ?? new TerminalModes();
    const visibleFrom = findScrolledOff(bytes, this.#size.rows, modes);
    if (visibleFrom === null || bytes.length - visibleFrom > this.#limits.hardBytes / 2) return false;
    this.#dropped = { modes, size: this.#size, exact: true };
    this.#pending.startLineAt(visibleFrom);
    return true;
  }

  #fold(): boolean {
    if (!isDrawable(this.#size) || !this.#budget.tryBegin()) return false;
    const inputs = this.#pending.take();
    const start = this.#dropped === null ? this.#start : this.#startAfter([], this.#dropped);
    this.#start = start;
    this.#dropped = null;
    this.#folding = inputs;
    const generation = this.#generation;
    this.#enqueue(async () => {
      const drawn = await this.#drawScreen(() => ({ start, inputs })).catch(() => null);
      this.#budget.end();
      if (generation !== this.#generation) return;
      this.#folding = null;
      if (drawn === null) this.#dropInputs(inputs);
      else this.#begin(drawn.size, drawn.redraw, drawn.exact, drawn.scrollsFully);
    });
    return true;
  }

  #drop(): void {
    this.#dropInputs(this.#pending.take());
    if (this.#pending.length > this.#limits.hardBytes / 2) this.#pending.shorten();
  }

  #dropInputs(inputs: readonly TerminalInput[]): void {
    const modes = this.#dropped?.modes ?? new TerminalModes();
    for (const input of inputs) {
      if (Buffer.isBuffer(input) && !modes.take(input).independent) this.#scrollsFully = false;
    }
    this.#dropped = { modes, size: this.#size, exact: false };
  }

  #begin(size: TerminalSize, redraw: Buffer, exact: boolean, scrollsFully: boolean): void {
    this.#scrollsFully = scrollsFully;
    const isTooLarge = redraw.length > MAX_REDRAW_BYTES;
    this.#start = { size, input: [isTooLarge ? modesOf(redraw) : redraw], exact: exact && !isTooLarge };
    this.#reduceAt = Math.min(this.#limits.hardBytes, this.#pending.length + this.#limits.softBytes);
  }

  #startAfter(folding: readonly TerminalInput[], { modes, size, exact }: DroppedOutput): ScreenStart {
    const start = this.#start;
    return { size: start.size, input: [...start.input, ...folding, size, modes.toBytes()], exact };
  }
}

interface DroppedOutput {
  readonly modes: TerminalModes;
  /** The size of the terminal behind it. */
  readonly size: TerminalSize;
  /** Whether the output behind it determines the screen. */
  readonly exact: boolean;
}

function modesOf(redraw: Buffer): Buffer {
  const modes = new TerminalModes();
  modes.take(redraw);
  return modes.toBytes();
}

/** Terminals ignore zero bytes, which `cat` of a sparse file can print without an end. */
function isZero(bytes: Buffer): boolean {
  if (bytes[0] !== 0 || bytes.at(-1) !== 0 || bytes.length > ZEROS.length) return false;
  return bytes.equals(ZEROS.subarray(0, bytes.length));
}

const ZEROS = Buffer.alloc(OUTPUT_READ_BYTES);
