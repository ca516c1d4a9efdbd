import { ByteBudget } from '../../../base/byte-budget.ts';
import type { FrameSocket } from '../../../transport/frame-socket.ts';
import type { CloseReason } from '../../../transport/transport.ts';
import { SOCKET_WINDOW_BYTES, STALL_TIMEOUT_MS } from '../limits.ts';

/** Events of a socket. */
interface PeerSocketEvents {
  frame(bytes: Uint8Array): void;
  /** Change of the queued bytes; negative when bytes were sent. */
  queued(bytes: number): void;
  /** The queue became full, or is no longer full. */
  fullChanged(): void;
  /** The queue has been full for too long. */
  stalled(): void;
  closed(reason: CloseReason): void;
}

/** One socket of an executor session, and the bytes queued for it. */
export class PeerSocket {
  readonly #socket: FrameSocket;
  readonly #events: PeerSocketEvents;
  readonly #window: ByteBudget;
  /** Runs while the queue is full. */
  #stallTimer: NodeJS.Timeout | null = null;
  #reading = true;

  constructor(socket: FrameSocket, events: PeerSocketEvents) {
    this.#socket = socket;
    this.#events = events;
    this.#window = new ByteBudget(SOCKET_WINDOW_BYTES, (full) => {
      if (full) this.#stallTimer = setTimeout(() => events.stalled(), STALL_TIMEOUT_MS);
      else if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
      events.fullChanged();
    });
  }

  /** Whether the queue is full. Senders are not read then. */
  get full(): boolean {
    return this.#window.full;
  }

  get queuedBytes(): number {
    return this.#window.bytes;
  }

  open(): void {
    this.#socket.open({
      frame: (bytes) => this.#events.frame(bytes),
      sent: (bytes) => {
        this.#window.remove(bytes);
        this.#events.queued(-bytes);
      },
      drained: () => {},
      closed: (reason) => this.#events.closed(reason),
    });
  }

  send(frame: Uint8Array): void {
    const before = this.#socket.pendingBytes;
    this.#socket.send(frame);
    // A closing socket does not queue more bytes.
    const taken = this.#socket.pendingBytes - before;
    if (taken === 0) return;
    this.#window.add(taken);
    this.#events.queued(taken);
  }

  setReading(reading: boolean): void {
    if (reading === this.#reading) return;
    this.#reading = reading;
    this.#socket.setReceiving(reading);
  }

  close(reason: CloseReason): void {
    this.#socket.close(reason);
  }

  /** Drops the connection without a close frame, which a peer that does not read would not receive. */
  drop(): void {
    this.#socket.drop();
  }
}
