import type { FramePipe, FramePipeEvents } from '../../../src/relay/stream/frame-pipe.ts';

/** Replaces a frame by the same, none, several or other frames. */
export type Fault = (frame: Uint8Array) => readonly Uint8Array[];

/** Creates two connected pipes. Frames arrive in order, in a later iteration of the event loop. */
export function createPipePair(): [MemoryPipe, MemoryPipe] {
  const left = new MemoryPipe();
  return [left, left.peer];
}

/** One side of a pair. */
export class MemoryPipe implements FramePipe {
  readonly peer: MemoryPipe;
  /** Frames sent from this side, before any fault. */
  readonly sent: Uint8Array[] = [];
  /** Changes the frames sent from this side. */
  fault: Fault = (frame) => [frame];
  receiving = true;
  closed = false;
  readonly #inbox: (Uint8Array | 'close')[] = [];
  #events: FramePipeEvents | null = null;
  #congested = false;

  constructor(peer?: MemoryPipe) {
    this.peer = peer ?? new MemoryPipe(this);
  }

  open(events: FramePipeEvents): void {
    this.#events = events;
    this.#schedule();
  }

  send(frame: Uint8Array): boolean {
    if (this.closed) return true;
    this.sent.push(frame);
    for (const each of this.fault(frame)) this.peer.inject(each);
    return !this.#congested;
  }

  setReceiving(receiving: boolean): void {
    this.receiving = receiving;
    this.#schedule();
  }

  close(): void {
    this.peer.#put('close');
    this.#end();
  }

  /** Delivers a frame that the other side did not send. */
  inject(frame: Uint8Array): void {
    this.#put(frame);
  }

  /** Closes both sides immediately. Frames in flight are lost. */
  cut(): void {
    this.peer.#end();
    this.#end();
  }

  setCongested(congested: boolean): void {
    const drains = this.#congested && !congested;
    this.#congested = congested;
    if (drains) this.#events?.drained();
  }

  #put(item: Uint8Array | 'close'): void {
    this.#inbox.push(item);
    this.#schedule();
  }

  #schedule(): void {
    setImmediate(() => {
      while (this.#events !== null && this.receiving && !this.closed) {
        const item = this.#inbox.shift();
        if (item === undefined) return;
        if (item === 'close') this.#end();
        else this.#events.frame(item);
      }
    });
  }

  #end(): void {
    if (this.closed) return;
    this.closed = true;
    this.#events?.closed();
  }
}
