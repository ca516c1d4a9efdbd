import { FRAME_COST_BYTES, MAX_WAITING_CONTROL_FRAMES, TICK_BYTES } from '../limits.ts';
import type { FramePipe } from './frame-pipe.ts';

/** Creates the frames of one stream, one at a time, when the pipe accepts them. */
export interface FrameSource {
  /** Returns the next frame, or null when there is nothing to send. */
  nextFrame(): Uint8Array | null;
}

/**
 * Shares one pipe among streams. It creates frames only when the pipe accepts them, from one stream after the other (round robin), and
 * limits the bytes per event loop iteration. Neither a large message nor a busy stream delays the others.
 */
export class OutgoingFrames {
  readonly #onBacklog: (backlogged: boolean) => void;
  readonly #ready = new Set<FrameSource>();
  #control: Uint8Array[] = [];
  #pipe: FramePipe | null = null;
  #congested = false;
  #backlogged = false;
  #pumping = false;
  #budgetBytes = TICK_BYTES;
  #refill: NodeJS.Immediate | null = null;

  /** Calls `onBacklog` with true to stop reading from a peer that causes control frames but does not read, false to resume. */
  constructor(onBacklog: (backlogged: boolean) => void) {
    this.#onBacklog = onBacklog;
  }

  /** Switches to a new pipe. Drops control frames that were queued for the old one. */
  attach(pipe: FramePipe): void {
    this.detach();
    this.#pipe = pipe;
    this.#pump();
  }

  /** Detaches the pipe. */
  detach(): void {
    this.#pipe = null;
    this.#congested = false;
    this.#control = [];
    this.#backlogged = false;
  }

  /** Closes the pipe after the queued control frames. */
  end(): void {
    const pipe = this.#pipe;
    if (pipe === null) return;
    for (const frame of this.#control) pipe.send(frame);
    this.detach();
    pipe.close();
  }

  /** Sends a control frame before all records. Drops it when there is no pipe. */
  sendControl(frame: Uint8Array): void {
    if (this.#pipe === null) return;
    this.#control.push(frame);
    this.#pump();
    this.#updateBacklog();
  }

  /** Adds a source that has something to send. */
  wake(source: FrameSource): void {
    this.#ready.add(source);
    this.#pump();
  }

  /** Removes a source. */
  remove(source: FrameSource): void {
    this.#ready.delete(source);
  }

  /** Continues after the pipe has drained. */
  drained(): void {
    this.#congested = false;
    this.#pump();
    this.#updateBacklog();
  }

  #pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      this.#sendWithinBudget();
    } finally {
      this.#pumping = false;
    }
    if (this.#budgetBytes < TICK_BYTES) this.#refill ??= setImmediate(() => this.#refillBudget());
  }

  #sendWithinBudget(): void {
    while (this.#pipe !== null && !this.#congested && this.#budgetBytes > 0) {
      // A stream that has sent everything may end in `nextFrame`, which queues a reset frame.
      const frame = this.#control.shift() ?? this.#nextRecord() ?? this.#control.shift();
      if (frame === undefined) return;
      this.#budgetBytes -= frame.length + FRAME_COST_BYTES;
      this.#congested = !this.#pipe.send(frame);
    }
  }

  #refillBudget(): void {
    this.#refill = null;
    this.#budgetBytes = TICK_BYTES;
    this.#pump();
    this.#updateBacklog();
  }

  /** Takes a frame from the first ready stream and moves the stream to the end of the queue. */
  #nextRecord(): Uint8Array | null {
    for (const source of this.#ready) {
      this.#ready.delete(source);
      const frame = source.nextFrame();
      if (frame === null) continue;
      this.#ready.add(source);
      return frame;
    }
    return null;
  }

  #updateBacklog(): void {
    const waiting = this.#control.length;
    const backlogged = this.#backlogged ? waiting > 0 : waiting >= MAX_WAITING_CONTROL_FRAMES;
    if (backlogged === this.#backlogged) return;
    this.#backlogged = backlogged;
    this.#onBacklog(backlogged);
  }
}
