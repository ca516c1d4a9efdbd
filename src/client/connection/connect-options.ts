import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from '../limits.ts';
import type { KeepAliveOptions, SessionOptions, TransportSource } from './session-options.ts';

/** Options of a connection to a URL. The Node client and the browser client add theirs. */
export interface CommonUrlOptions extends SessionOptions, KeepAliveOptions {
  readonly url: string;
  readonly authToken?: string;
}

/** Connects over transports that the caller provides: a command's stdio, memory, a relay. */
export interface TransportOptions extends SessionOptions, TransportSource {}

/** The options of a connection. A text or a URL is the address of the server. */
export function connectOptions<T extends object>(target: string | URL | T): T | { readonly url: string } {
  return typeof target === 'string' || target instanceof URL ? { url: String(target) } : target;
}

/** The limits and timeouts of a connection to a URL. */
export function urlSettings({ maxMessageBytes, pingIntervalMs, pongTimeoutMs }: CommonUrlOptions) {
  return {
    maxMessageBytes: maxMessageBytes ?? MAX_MESSAGE_BYTES,
    pingIntervalMs: pingIntervalMs ?? PING_INTERVAL_MS,
    pongTimeoutMs: pongTimeoutMs ?? PEER_SILENCE_TIMEOUT_MS,
  };
}
