import { splitBinaryMessage } from './binary-message.ts';
import { MEMORY_UNANSWERED_REQUESTS } from './limits.ts';
import {
  type BytesMessage,
  CloseCode,
  type CloseReason,
  type Transport,
  type TransportEvents,
} from './transport.ts';

/**
 * Creates two connected transports in one process. Messages arrive in later turns of the event loop, in order and
 * without loss. By default every message is text, as on a network; with `carriesBytes` large members need no
 * base64.
 */
export function createMemoryPair({ carriesBytes = false } = {}): [MemoryTransport, MemoryTransport] {
  const left = new MemoryTransport(carriesBytes);
  return [left, left.peer];
}

/** One end of a pair. `setCongested` simulates a peer that does not read. */
export class MemoryTransport implements Transport {
  readonly peer: MemoryTransport;
  readonly sendBytes?: NonNullable<Transport['sendBytes']>;
  readonly inProcess: boolean;
  readonly maxUnansweredRequests?: number;
  #events: TransportEvents | null = null;
  readonly #inbox: (string | BytesMessage | CloseReason)[] = [];
  #parts: Uint8Array[] = [];
  #receiving = true;
  #closed = false;
  #congested = false;

  /** Without a peer the transport creates one. */
  constructor(carriesBytes = false, peer?: MemoryTransport) {
    this.peer = peer ?? new MemoryTransport(carriesBytes, this);
    this.inProcess = carriesBytes;
    if (!carriesBytes) return;
    this.maxUnansweredRequests = MEMORY_UNANSWERED_REQUESTS;
    this.sendBytes = ({ text, bytes }, released) => {
      if (!this.#closed)
        this.peer.#deliver({ text, bytes: released === undefined ? bytes : Buffer.from(bytes) });
      released?.();
      return !this.#congested;
    };
  }

  open(events: TransportEvents): void {
    this.#events = events;
    this.#schedule();
  }

  send(message: string | Uint8Array, released?: () => void): boolean {
    if (!this.#closed) this.peer.#deliver(typeof message === 'string' ? message : textOf(message));
    released?.();
    return !this.#congested;
  }

  sendPart(part: Uint8Array, last: boolean, released?: () => void, isBinary = false): boolean {
    this.#parts.push(Buffer.from(part));
    released?.();
    if (!last) return !this.#congested;
    const message = Buffer.concat(this.#parts);
    this.#parts = [];
    return isBinary ? this.sendBytes!(splitBinaryMessage(message)) : this.send(message);
  }

  setReceiving(receiving: boolean): void {
    this.#receiving = receiving;
    if (receiving) this.#schedule();
  }

  close(reason: CloseReason): void {
    if (this.#closed) return;
    this.peer.#deliver(reason);
    this.#end(reason);
  }

  /** Simulates a peer that stops reading (true) or continues (false). */
  setCongested(congested: boolean): void {
    const drains = this.#congested && !congested;
    this.#congested = congested;
    if (drains) this.#events?.drained();
  }

  /** Simulates a broken connection: both ends see an abnormal close. */
  break(): void {
    const reason = { code: CloseCode.abnormal, reason: 'the link broke' };
    this.peer.#end(reason);
    this.#end(reason);
  }

  #deliver(item: string | BytesMessage | CloseReason): void {
    this.#inbox.push(item);
    this.#schedule();
  }

  #schedule(): void {
    setImmediate(() => this.#drainInbox());
  }

  #drainInbox(): void {
    while (this.#events !== null && this.#receiving && !this.#closed) {
      const item = this.#inbox.shift();
      if (item === undefined) return;
      if (typeof item === 'string') this.#events.message(item);
      else if ('bytes' in item) this.#events.bytesMessage?.(item);
      else this.#end(item);
    }
  }

  #end(reason: CloseReason): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#events?.closed(reason);
  }
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString();
}
