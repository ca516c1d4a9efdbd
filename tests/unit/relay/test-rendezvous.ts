import { decodeFrame, encodeFrame } from '../../../src/relay/frames/frame.ts';
import { PEER_LOST_REASON } from '../../../src/relay/frames/frame-markers.ts';
import { createPipePair, type MemoryPipe } from './memory-pipe.ts';

/** Which connection breaks. */
export type CutSide = 'harness' | 'executor' | 'both';

/**
 * Forwards frames between one harness and one executor, and breaks connections on demand. Who remains learns that the other is gone
 * in the way of a rendezvous that knows streams can be resumed.
 */
export class TestRendezvous {
  /** Frames that came to be forwarded. */
  frames = 0;
  /** Tells, for each frame, whether a connection breaks in place of forwarding it. */
  cutAt: (frame: number) => CutSide | null = () => null;
  readonly #streams = new Set<string>();
  #harness: MemoryPipe | null = null;
  #executor: MemoryPipe | null = null;

  /** A pipe for the harness. */
  connectHarness(): MemoryPipe {
    const [theirs, ours] = createPipePair();
    this.#harness = ours;
    ours.open({
      frame: (frame) => {
        this.#streams.add(decodeFrame(frame).streamId);
        if (this.#passes()) this.#executor?.send(frame);
      },
      drained: () => {},
      closed: () => {
        if (this.#harness === ours) this.#harness = null;
        this.#tell(this.#executor);
      },
    });
    return theirs;
  }

  /** A pipe for the executor. */
  connectExecutor(): MemoryPipe {
    const [theirs, ours] = createPipePair();
    this.#executor = ours;
    ours.open({
      frame: (frame) => {
        if (this.#passes()) this.#harness?.send(frame);
      },
      drained: () => {},
      closed: () => {
        if (this.#executor === ours) this.#executor = null;
        this.#tell(this.#harness);
      },
    });
    return theirs;
  }

  cut(side: CutSide): void {
    if (side !== 'executor') this.#harness?.cut();
    if (side !== 'harness') this.#executor?.cut();
  }

  #passes(): boolean {
    const side = this.cutAt(this.frames++);
    if (side !== null) this.cut(side);
    return side === null;
  }

  #tell(pipe: MemoryPipe | null): void {
    for (const streamId of this.#streams) {
      pipe?.send(encodeFrame({ streamId, body: { kind: 'reset', reason: PEER_LOST_REASON } }));
    }
  }
}
