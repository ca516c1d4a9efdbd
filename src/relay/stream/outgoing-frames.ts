import { FRAME_COST_BYTES, MAX_WAITING_CONTROL_FRAMES, TURN_BYTES } from '../limits.ts';
import type { FramePipe } from './frame-pipe.ts';

/** Makes the frames of one stream, one at a time, when there is room for them. */
export interface FrameSource {
  /** The next frame; null when there is nothing to send. */
  nextFrame(): Uint8Array | null;
}

/**
 * Shares one pipe among streams. Frames are made only when the pipe takes them, one stream after the other, and only so many in one
 * turn of the event loop: neither a large message nor a busy stream holds up the rest.
 */
export class OutgoingFrames {
  readonly #onBacklog: (backlogged: boolean) => void;
  readonly #ready = new Set<FrameSource>();
  #control: Uint8Array[] = [];
  #pipe: FramePipe | null = null;
  #congested = false;
  #backlogged = false;
  #pumping = false;
  #leftThisTurn = TURN_BYTES;
  #nextTurn: NodeJS.Immediate | null = null;

  /** `onBacklog` tells to stop reading (true) from a peer that causes frames and takes none, or to go on (false). */
  constructor(onBacklog: (backlogged: boolean) => void) {
    this.#onBacklog = onBacklog;
  }

  /** Goes on with a new pipe. What was meant for the old one and is not a record is dropped. */
  attach(pipe: FramePipe): void {
    this.detach();
    this.#pipe = pipe;
    this.#pump();
  }

  /** There is no pipe for now. */
  detach(): void {
    this.#pipe = null;
    this.#congested = false;
    this.#control = [];
    this.#backlogged = false;
  }

  /** Closes the pipe after the frames beside records that wait for it. */
  end(): void {
    const pipe = this.#pipe;
    if (pipe === null) return;
    for (const frame of this.#control) pipe.send(frame);
    this.detach();
    pipe.close();
  }

  /** Sends ahead of all records. Without a pipe the frame is dropped. */
  sendControl(frame: Uint8Array): void {
    if (this.#pipe === null) return;
    this.#control.push(frame);
    this.#pump();
    this.#updateBacklog();
  }

  /** The source has something to send. */
  wake(source: FrameSource): void {
    this.#ready.add(source);
    this.#pump();
  }

  /** The source is gone. */
  remove(source: FrameSource): void {
    this.#ready.delete(source);
  }

  /** The pipe takes more. */
  drained(): void {
    this.#congested = false;
    this.#pump();
    this.#updateBacklog();
  }

  #pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      this.#sendThisTurn();
    } finally {
      this.#pumping = false;
    }
    if (this.#leftThisTurn < TURN_BYTES) this.#nextTurn ??= setImmediate(() => this.#renew());
  }

  #sendThisTurn(): void {
    while (this.#pipe !== null && !this.#congested && this.#leftThisTurn > 0) {
      // A stream that has nothing more to send may end for it, which takes a frame of its own.
      const frame = this.#control.shift() ?? this.#nextRecord() ?? this.#control.shift();
      if (frame === undefined) return;
      this.#leftThisTurn -= frame.length + FRAME_COST_BYTES;
      this.#congested = !this.#pipe.send(frame);
    }
  }

  #renew(): void {
    this.#nextTurn = null;
    this.#leftThisTurn = TURN_BYTES;
    this.#pump();
    this.#updateBacklog();
  }

  /** Of the stream whose turn it is. It goes to the end of the line while it has more. */
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
