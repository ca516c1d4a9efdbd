import { unlessAborted } from '../../base/abort.ts';
import { ProcessError } from '../errors.ts';
import { DrawingTimeoutError, drawScreenFor } from '../screen-thread.ts';
import type { TerminalSize } from '../terminal-size.ts';
import type { Drawing, DrawnScreen, DrawScreen, TerminalInput } from './drawn-screen.ts';
import { forEachSequence } from './escape-sequences.ts';
import { EVICTION_LIMITS, EvictedScreen, type EvictionLimits, type ScreenHistory } from './evicted-screen.ts';
import { FoldBudget } from './fold-budget.ts';
import { MAX_REDRAW_BYTES, MAX_RESIZES, MODES_SLICE_BYTES } from './limits.ts';
import { upTo } from './pending-output.ts';
import { findScrolledOff, startOfDrawing } from './scrolled-off.ts';
import { TerminalModes } from './terminal-modes.ts';

/** The retained output of a terminal. Offsets count from the beginning of the output. */
export interface RetainedOutput {
  /** The sequence number of the last event. */
  readonly lastSeq: number;
  readonly totalBytes: number;
  /** A copy of the output from an offset on, which was not evicted yet. */
  bytesFrom(offset: number): Buffer;
}

/** The screen of a terminal after the event `seq`. */
export interface Screen extends Omit<DrawnScreen, 'scrollsFully'> {
  readonly seq: number;
}

/**
 * Draws the screen of a terminal when it is asked for: from the retained output, and from what the evicted output left behind. Until
 * then it only collects evicted output.
 */
export class ScreenTracker {
  readonly #output: RetainedOutput;
  readonly #drawScreen: DrawScreen;
  readonly #evicted: EvictedScreen;
  #evictedBytes = 0;
  /** Resizes at their offset, which were not evicted. */
  readonly #resizes: { readonly offset: number; readonly size: TerminalSize }[] = [];
  #size: TerminalSize;
  /** The last screen that was drawn, as the start for the next. */
  #last: { readonly offset: number; readonly screen: DrawnScreen } | null = null;
  /** Settles after the jobs so far. Each job uses a headless terminal of its own, so they wait for each other. */
  #jobs: Promise<unknown> = Promise.resolve();
  /** The drawing that has not begun, which answers all callers until it does. */
  #next: WantedScreen | null = null;

  constructor(
    size: TerminalSize,
    output: RetainedOutput,
    drawScreen: DrawScreen = drawScreenFor(output),
    limits: EvictionLimits = EVICTION_LIMITS,
    budget: FoldBudget = SERVER_BUDGET,
  ) {
    this.#drawScreen = drawScreen;
    this.#size = size;
    this.#output = output;
    this.#evicted = new EvictedScreen(size, (job) => void this.#enqueue(job), limits, budget, drawScreen);
  }

  get size(): TerminalSize {
    return this.#size;
  }

  /** Memory besides the retained output. */
  get retainedBytes(): number {
    return this.#evicted.retainedBytes + (this.#last?.screen.redraw.length ?? 0);
  }

  /** The terminal has another size from here on. */
  resize(size: TerminalSize): void {
    this.#size = size;
    const offset = this.#output.totalBytes;
    if (this.#resizes.at(-1)?.offset === offset) this.#resizes.pop();
    this.#resizes.push({ offset, size });
    if (this.#resizes.length <= MAX_RESIZES) return;
    this.#resizes.shift();
    this.#evicted.loseExactness();
  }

  /** Receives output that leaves the log, in order. Valid only during the call. */
  evict(bytes: Buffer): void {
    const from = this.#evictedBytes;
    const end = from + bytes.length;
    this.#evictedBytes = end;
    let at = from;
    if (this.#last !== null && this.#last.offset < end) {
      this.#evicted.replace(this.#last.screen);
      at = this.#last.offset;
      this.#last = null;
      while ((this.#resizes[0]?.offset ?? end) < at) this.#resizes.shift();
    }
    for (let next = this.#resizes[0]; next !== undefined && next.offset < end; next = this.#resizes[0]) {
      this.#evicted.append(bytes.subarray(at - from, next.offset - from));
      this.#evicted.resize(next.size);
      at = next.offset;
      this.#resizes.shift();
    }
    this.#evicted.append(bytes.subarray(at - from));
  }

  /**
   * Draws the screen as it is now, or a moment later when other screens are being drawn. Rejects with the reason of the signal when that
   * aborts. A screen that no caller waits for any more is not drawn.
   */
  draw(signal?: AbortSignal): Promise<Screen> {
    this.#next ??= this.#want();
    const wanted = this.#next;
    wanted.callers++;
    if (signal === undefined) return wanted.screen;
    return unlessAborted(wanted.screen, signal, () => {
      if (--wanted.callers === 0) {
        if (this.#next === wanted) this.#next = null;
        wanted.abandoned.abort(signal.reason);
      }
      throw signal.reason;
    });
  }

  #want(): WantedScreen {
    const abandoned = new AbortController();
    const screen = this.#enqueue(() => {
      if (this.#next === wanted) this.#next = null;
      abandoned.signal.throwIfAborted();
      return this.#draw(abandoned.signal);
    });
    const wanted: WantedScreen = { screen, abandoned, callers: 0 };
    return wanted;
  }

  async #draw(abandoned: AbortSignal): Promise<Screen> {
    let source: ScreenSource | null = null;
    const prepare = () => {
      source = this.#source();
      return source;
    };
    const screen = await this.#drawScreen(prepare, abandoned).catch((error: unknown) => {
      if (source === null) throw error;
      return this.#drawLess([...source.start.input, ...source.inputs], error);
    });
    const { lastSeq, end, unfinished } = source!;
    this.#remember(end, screen);
    // The client completes an unfinished sequence with the output that follows.
    return { ...screen, seq: lastSeq, redraw: Buffer.concat([screen.redraw, unfinished]) };
  }

  /** What the present screen is drawn from. */
  #source(): ScreenSource {
    const { lastSeq, totalBytes } = this.#output;
    const history = this.#history();
    const bytes = Buffer.concat(history.inputs.filter((input) => Buffer.isBuffer(input)));
    const end = forEachSequence(bytes, () => true);
    const unfinished = bytes.subarray(end);
    const drawing = withoutScrolledOff(history, bytes.subarray(0, end), this.#size.rows);
    return { ...drawing, lastSeq, end: totalBytes - unfinished.length, unfinished };
  }

  #history(): ScreenHistory {
    if (this.#last === null) {
      const history = this.#evicted.history;
      return { ...history, inputs: [...history.inputs, ...this.#retained(this.#evictedBytes)] };
    }
    const { offset, screen } = this.#last;
    return {
      start: { size: screen.size, input: [screen.redraw], exact: screen.exact },
      inputs: this.#retained(offset),
      scrollsFully: screen.scrollsFully,
    };
  }

  /** The retained output from an offset on, and the resizes since then. */
  #retained(from: number): TerminalInput[] {
    const bytes = this.#output.bytesFrom(from);
    const inputs: TerminalInput[] = [];
    let at = from;
    for (const { offset, size } of this.#resizes) {
      if (offset < from) continue;
      inputs.push(bytes.subarray(at - from, offset - from), size);
      at = offset;
    }
    return [...inputs, bytes.subarray(at - from)];
  }

  /**
   * Draws what cannot be drawn in full. The library fails on some output of terminals that were resized: it is drawn as if the terminal
   * always had its present size. Of output that takes too long only the modes are left.
   */
  async #drawLess(inputs: readonly TerminalInput[], error: unknown): Promise<DrawnScreen> {
    if (error instanceof ProcessError) throw error;
    const size = this.#size;
    const output = inputs.filter((input) => Buffer.isBuffer(input));
    const draw = (input: readonly TerminalInput[], inputs: readonly TerminalInput[]) =>
      this.#drawScreen(() => ({ start: { size, input, exact: false }, inputs }));
    const onlyModes = async () => draw([await modesOf(Buffer.concat(output))], []);
    if (error instanceof DrawingTimeoutError) return await onlyModes();
    return await draw([], output).catch(onlyModes);
  }

  #remember(offset: number, screen: DrawnScreen): void {
    const isRetained = offset >= this.#evictedBytes && screen.redraw.length <= MAX_REDRAW_BYTES;
    // A resize in the middle of a sequence would come twice.
    const isResizedBehind = this.#resizes.some((resize) => resize.offset > offset);
    if (isRetained && !isResizedBehind) this.#last = { offset, screen };
  }

  #enqueue<T>(job: () => Promise<T>): Promise<T> {
    const done = this.#jobs.then(job);
    this.#jobs = done.catch(() => undefined);
    return done;
  }
}

/** A screen that callers wait for. */
interface WantedScreen {
  readonly screen: Promise<Screen>;
  /** Aborts when the last caller is gone. */
  readonly abandoned: AbortController;
  callers: number;
}

/** What a screen is drawn from. */
interface ScreenSource extends Drawing {
  /** The last event in it. */
  readonly lastSeq: number;
  /** The offset behind the last complete sequence. */
  readonly end: number;
  readonly unfinished: Buffer;
}

/** All terminals of a process of the operating system share its cores. */
const SERVER_BUDGET = new FoldBudget();

/** Replaces output that scrolled off by the modes that it set. `bytes` is the output of the history, up to an unfinished sequence. */
function withoutScrolledOff(
  { start, inputs, scrollsFully }: ScreenHistory,
  bytes: Buffer,
  rows: number,
): Drawing {
  if (!scrollsFully || !inputs.every((input) => Buffer.isBuffer(input))) {
    return { start, inputs: upTo(inputs, bytes.length) };
  }
  let modes = new TerminalModes();
  let visibleFrom = findScrolledOff(bytes, rows, modes);
  if (visibleFrom === null) {
    modes = new TerminalModes();
    visibleFrom = findScrolledOff(bytes.subarray(0, startOfDrawing(bytes)), rows, modes);
  }
  if (visibleFrom === null) return { start, inputs: upTo(inputs, bytes.length) };
  return {
    start: { ...start, input: [...start.input, modes.toBytes()], exact: true },
    inputs: [Buffer.from('\r'), bytes.subarray(visibleFrom)],
  };
}

/** The bytes that set the modes which this output sets. Looks at a part of it per turn of the event loop. */
async function modesOf(output: Buffer): Promise<Buffer> {
  const modes = new TerminalModes();
  for (let from = 0, sliceBytes = MODES_SLICE_BYTES; from < output.length; ) {
    const slice = output.subarray(from, from + sliceBytes);
    const end = from + slice.length < output.length ? forEachSequence(slice, () => true) : slice.length;
    modes.take(slice.subarray(0, end));
    from += end;
    // A control string may be longer than a slice.
    sliceBytes = end === 0 ? sliceBytes * 2 : MODES_SLICE_BYTES;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return modes.toBytes();
}
