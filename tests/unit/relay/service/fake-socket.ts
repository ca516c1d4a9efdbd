import { encodeFrame } from '../../../../src/relay/frames/frame.ts';
import type { FrameSocket, FrameSocketEvents } from '../../../../src/transport/frame-socket.ts';
import type { CloseReason } from '../../../../src/transport/transport.ts';

/** A socket whose peer reads only when the test calls `drain`. */
export class FakeSocket {
  readonly sent: Uint8Array[] = [];
  pendingBytes = 0;
  receiving = true;
  closed: CloseReason | null = null;
  #events: FrameSocketEvents | null = null;

  /** The fake as a FrameSocket. It implements only the members that the tests use. */
  get asSocket(): FrameSocket {
    return this as unknown as FrameSocket;
  }

  open(events: FrameSocketEvents): void {
    this.#events = events;
  }

  send(frame: Uint8Array): boolean {
    if (this.closed !== null) return true;
    this.sent.push(frame);
    this.pendingBytes += frame.length;
    return true;
  }

  setReceiving(receiving: boolean): void {
    this.receiving = receiving;
  }

  close(reason: CloseReason): void {
    this.#end(reason);
  }

  drop(): void {
    this.#end({ code: 1006, reason: '' });
  }

  /** Delivers a frame from the peer. */
  arrive(streamId: string, bytes = 100): void {
    const payload = new Uint8Array(bytes);
    this.arriveFrame(encodeFrame({ streamId, body: { kind: 'data', seq: 0, payload } }));
  }

  arriveFrame(frame: Uint8Array): void {
    this.#events?.frame(frame);
  }

  /** Simulates that the peer reads this many bytes. */
  drain(bytes = this.pendingBytes): void {
    this.pendingBytes -= bytes;
    this.#events?.sent?.(bytes);
  }

  #end(reason: CloseReason): void {
    if (this.closed !== null) return;
    this.closed = reason;
    const lost = this.pendingBytes;
    this.pendingBytes = 0;
    if (lost > 0) this.#events?.sent?.(lost);
    this.#events?.closed(reason);
  }
}
