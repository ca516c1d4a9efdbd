import { ByteBudget } from '../../../base/byte-budget.ts';
import type { FrameSocket } from '../../../transport/frame-socket.ts';
import type { CloseReason } from '../../../transport/transport.ts';
import { HOLD_UP_MS, SOCKET_WINDOW_BYTES } from '../limits.ts';

/** What a peer tells its seat. */
export interface PeerEvents {
  frame(bytes: Uint8Array): void;
  /** So many bytes more wait for the peer, or fewer when it is negative. */
  waiting(bytes: number): void;
  /** More waits for the peer than may, or no longer. */
  filled(): void;
  /** More than may has waited for the peer for too long. */
  heldUp(): void;
  closed(reason: CloseReason): void;
}

/** One socket of a seat, with what waits for it. */
export class Peer {
  readonly #socket: FrameSocket;
  readonly #events: PeerEvents;
  readonly #window: ByteBudget;
  /** Runs while more waits than may. */
  #holdUp: NodeJS.Timeout | null = null;
  #reading = true;

  constructor(socket: FrameSocket, events: PeerEvents) {
    this.#socket = socket;
    this.#events = events;
    this.#window = new ByteBudget(SOCKET_WINDOW_BYTES, (full) => {
      if (full) this.#holdUp = setTimeout(() => events.heldUp(), HOLD_UP_MS);
      else if (this.#holdUp !== null) clearTimeout(this.#holdUp);
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
