import { decodeFrame, encodeFrame } from '../../../src/relay/frames/frame.ts';
import { PEER_LOST_REASON } from '../../../src/relay/frames/frame-markers.ts';
import { createPipePair, type MemoryPipe } from './memory-pipe.ts';

/** The connection to break. */
export type CutSide = 'harness' | 'executor' | 'both';

/**
 * Forwards frames between one harness and one executor, and breaks connections on demand. It notifies the remaining peer like the
 * relay's rendezvous, so that streams can resume.
 */
export class TestRendezvous {
  /** Number of frames received for forwarding. */
  frames = 0;
  /** Returns the connection to break instead of forwarding a frame, or null. */
  cutAt: (frame: number) => CutSide | null = () => null;
  readonly #streams = new Set<string>();
  #harness: MemoryPipe | null = null;
  #executor: MemoryPipe | null = null;

  /** Opens a pipe for the harness. */
  connectHarness(): MemoryPipe {
    const [theirs, ours] = createPipePair();
    this.#harness = ours;
    ours.open({
      frame: (frame) => {
        this.#streams.add(decodeFrame(frame).streamId);
        if (this.#forwards()) this.#executor?.send(frame);
      },
      drained: () => {},
      closed: () => {
        if (this.#harness === ours) this.#harness = null;
        this.#notify(this.#executor);
      },
    });
    return theirs;
  }

  /** Opens a pipe for the executor. */
  connectExecutor(): MemoryPipe {
    const [theirs, ours] = createPipePair();
    this.#executor = ours;
    ours.open({
      frame: (frame) => {
        if (this.#forwards()) this.#harness?.send(frame);
      },
      drained: () => {},
      closed: () => {
        if (this.#executor === ours) this.#executor = null;
        this.#notify(this.#harness);
      },
    });
    return theirs;
  }

  cut(side: CutSide): void {
    if (side !== 'executor') this.#harness?.cut();
    if (side !== 'harness') this.#executor?.cut();
  }

  #forwards(): boolean {
    const side = this.cutAt(this.frames++);
    if (side !== null) this.cut(side);
    return side === null;
  }

  #notify(pipe: MemoryPipe | null): void {
    for (const streamId of this.#streams) {
      pipe?.send(encodeFrame({ streamId, body: { kind: 'reset', reason: PEER_LOST_REASON } }));
    }
  }
}
