import {
  BinaryMessageError,
  encodeBinaryHead,
  isBinaryMessage,
  splitBinaryMessage,
} from './binary-message.ts';
import { CLOSE_TIMEOUT_MS } from './limits.ts';
import {
  type BytesMessage,
  CloseCode,
  type CloseReason,
  type Transport,
  type TransportEvents,
} from './transport.ts';

/** The part of the browser's WebSocket that this file uses. */
interface BrowserSocket {
  readonly readyState: number;
  binaryType: string;
  onopen: (() => void) | null;
  onerror: (() => void) | null;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  onclose: ((event: { readonly code: number; readonly reason: string }) => void) | null;
  send(data: string | Uint8Array): void;
  close(code: number, reason: string): void;
}

/** Opens a connection with the browser's WebSocket. Rejects when there is none or the server cannot be reached. */
export function connectBrowserWebSocket(
  url: string,
  options: {
    readonly maxMessageBytes: number;
    readonly protocols?: readonly string[];
    readonly signal?: AbortSignal;
  },
): Promise<Transport> {
  const { maxMessageBytes, protocols = [], signal } = options;
  return new Promise((resolve, reject) => {
    const { WebSocket } = globalThis as {
      WebSocket?: new (url: string, protocols: string[]) => BrowserSocket;
    };
    if (WebSocket === undefined) throw new Error('this environment has no WebSocket');
    signal?.throwIfAborted();
    const socket = new WebSocket(url, [...protocols]);
    const abort = () => socket.close(CloseCode.normal, '');
    signal?.addEventListener('abort', abort, { once: true });
    socket.binaryType = 'arraybuffer';
    // Error events carry no information, and a close event follows each.
    socket.onerror = () => {};
    socket.onclose = () => {
      signal?.removeEventListener('abort', abort);
      reject(signal?.aborted ? signal.reason : new Error('the browser could not open the websocket'));
    };
    socket.onopen = () => {
      signal?.removeEventListener('abort', abort);
      resolve(new BrowserWebSocketTransport(socket, maxMessageBytes));
    };
  });
}

const OPEN = 1;

/** A browser's websocket as a transport. It can neither ping nor pause, and accepts everything that is sent. */
class BrowserWebSocketTransport implements Transport {
  readonly #socket: BrowserSocket;
  readonly #maxMessageBytes: number;
  readonly #early: unknown[] = [];
  #events: TransportEvents | null = null;
  #parts: Uint8Array[] = [];
  #end: CloseReason | null = null;
  #acceptsBytes = false;
  #closing = false;
  #cutOff: ReturnType<typeof setTimeout> | undefined;

  constructor(socket: BrowserSocket, maxMessageBytes: number) {
    this.#socket = socket;
    this.#maxMessageBytes = maxMessageBytes;
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onclose = ({ code, reason }) => this.#ended({ code, reason });
  }

  open(events: TransportEvents): void {
    this.#events = events;
    for (const data of this.#early.splice(0)) this.#receive(data);
    const end = this.#end;
    if (end !== null) queueMicrotask(() => events.closed(end));
  }

  send(message: string | Uint8Array): boolean {
    if (this.#socket.readyState !== OPEN) return true;
    this.#socket.send(typeof message === 'string' ? message : new TextDecoder().decode(message));
    return true;
  }

  sendPart(part: Uint8Array, last: boolean, _released?: () => void, isBinary = false): boolean {
    this.#parts.push(part.slice());
    if (!last) return true;
    const whole = concat(this.#parts);
    this.#parts = [];
    return isBinary ? this.#sendBinary(whole) : this.send(whole);
  }

  sendBytes({ text, bytes }: BytesMessage, released?: () => void): boolean {
    const hasCapacity = this.#sendBinary(concat([encodeBinaryHead(text), bytes]));
    released?.();
    return hasCapacity;
  }

  acceptBytes(): void {
    this.#acceptsBytes = true;
  }

  setReceiving(): void {}

  close({ code, reason }: CloseReason): void {
    if (this.#closing) return;
    this.#closing = true;
    // Web pages may only close with 1000 and private codes.
    this.#socket.close(
      code === CloseCode.normal ? code : PRIVATE_CODES + code,
      reason.slice(0, MAX_REASON_LENGTH),
    );
    // Browsers wait much longer for a server that does not answer.
    this.#cutOff = setTimeout(() => this.#ended({ code: CloseCode.abnormal, reason }), CLOSE_TIMEOUT_MS);
  }

  #ended(end: CloseReason): void {
    if (this.#end !== null) return;
    clearTimeout(this.#cutOff);
    this.#end = end;
    this.#events?.closed(end);
  }

  #receive(data: unknown): void {
    if (this.#events === null) {
      this.#early.push(data);
      return;
    }
    if (this.#closing) return;
    const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : null;
    if (bytes !== null && this.#acceptsBytes && isBinaryMessage(bytes)) this.#receiveBytes(bytes);
    else this.#receiveText(data);
  }

  #sendBinary(payload: Uint8Array): boolean {
    if (this.#socket.readyState === OPEN) this.#socket.send(payload);
    return true;
  }

  #receiveBytes(payload: Uint8Array): void {
    if (this.#refusesSize(payload.length)) return;
    try {
      this.#events?.bytesMessage?.(splitBinaryMessage(payload));
    } catch (error) {
      if (!(error instanceof BinaryMessageError)) throw error;
      this.#events?.undecodable(error.message);
    }
  }

  #receiveText(data: unknown): void {
    const text = typeof data === 'string' ? data : decodeUtf8(data as ArrayBuffer);
    if (text === null) this.#events?.undecodable('a binary frame is not valid UTF-8');
    else if (!this.#refusesSize(text.length)) this.#events?.message(text);
  }

  /** Closes the connection and returns true when a message is too large. */
  #refusesSize(length: number): boolean {
    if (length <= this.#maxMessageBytes) return false;
    this.close({ code: CloseCode.messageTooBig, reason: 'a message is too large' });
    return true;
  }
}

const PRIVATE_CODES = 3000;
/** A close frame holds 123 bytes of reason; a character takes at most three. */
const MAX_REASON_LENGTH = 41;

function decodeUtf8(data: ArrayBuffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(data);
  } catch {
    return null;
  }
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  for (const part of parts) {
    whole.set(part, end);
    end += part.length;
  }
  return whole;
}
