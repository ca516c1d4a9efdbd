import type { FramePipe, FramePipeEvents } from '../../../src/relay/stream/frame-pipe.ts';

/** What arrives in place of a frame: the same, none, several, or others. */
export type Fault = (frame: Uint8Array) => readonly Uint8Array[];

/** Two connected pipes. Frames arrive in later turns of the event loop, in order. */
export function createPipePair(): [MemoryPipe, MemoryPipe] {
  const left = new MemoryPipe();
  return [left, left.peer];
}

/** One end of a pair. */
export class MemoryPipe implements FramePipe {
  readonly peer: MemoryPipe;
  /** What was sent from here, before any fault. */
  readonly sent: Uint8Array[] = [];
  /** Changes what is sent from here. */
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

  /** Lets a frame arrive here that nobody sent. */
  inject(frame: Uint8Array): void {
    this.#put(frame);
  }

  /** Both ends are gone at once; what is under way is lost. */
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
