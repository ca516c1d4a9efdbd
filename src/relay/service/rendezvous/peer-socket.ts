import { ByteBudget } from '../../../base/byte-budget.ts';
import type { FrameSocket } from '../../../transport/frame-socket.ts';
import type { CloseReason } from '../../../transport/transport.ts';
import { SOCKET_WINDOW_BYTES, STALL_TIMEOUT_MS } from '../limits.ts';

/** What a peer tells its seat. */
export interface PeerSocketEvents {
  frame(bytes: Uint8Array): void;
  /** So many bytes more wait for the peer, or fewer when it is negative. */
  waiting(bytes: number): void;
  /** More waits for the peer than may, or no longer. */
  filled(): void;
  /** More than may has waited for the peer for too long. */
  stalled(): void;
  closed(reason: CloseReason): void;
}

/** One socket of a seat, with what waits for it. */
export class PeerSocket {
  readonly #socket: FrameSocket;
  readonly #events: PeerSocketEvents;
  readonly #window: ByteBudget;
  /** Runs while more waits than may. */
  #stallTimer: NodeJS.Timeout | null = null;
  #reading = true;

  constructor(socket: FrameSocket, events: PeerSocketEvents) {
    this.#socket = socket;
    this.#events = events;
    this.#window = new ByteBudget(SOCKET_WINDOW_BYTES, (full) => {
      if (full) this.#stallTimer = setTimeout(() => events.stalled(), STALL_TIMEOUT_MS);
      else if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
      events.filled();
    });
  }

  /** Whether so much waits for it that nobody may send it more. */
  get full(): boolean {
    return this.#window.full;
  }

  get waitingBytes(): number {
    return this.#window.bytes;
  }

  open(): void {
    this.#socket.open({
      frame: (bytes) => this.#events.frame(bytes),
      sent: (bytes) => {
        this.#window.remove(bytes);
        this.#events.waiting(-bytes);
      },
      drained: () => {},
      closed: (reason) => this.#events.closed(reason),
    });
  }

  send(frame: Uint8Array): void {
    const before = this.#socket.pendingBytes;
    this.#socket.send(frame);
    // A socket that is closing takes nothing more.
    const taken = this.#socket.pendingBytes - before;
    if (taken === 0) return;
    this.#window.add(taken);
    this.#events.waiting(taken);
  }

  setReading(reading: boolean): void {
    if (reading === this.#reading) return;
    this.#reading = reading;
    this.#socket.setReceiving(reading);
  }

  close(reason: CloseReason): void {
    this.#socket.close(reason);
  }

  /** Cuts the connection: a peer that does not read would not read a close either. */
  drop(): void {
    this.#socket.drop();
  }
}
