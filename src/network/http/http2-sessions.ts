import { type ClientHttp2Session, connect } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import {
  HTTP2_CONNECTION_WINDOW_BYTES,
  HTTP2_STREAM_WINDOW_BYTES,
  MAX_HTTP2_RESPONSE_HEADERS,
  MAX_KNOWN_ROUTES,
  MAX_STREAMS_PER_HTTP2_CONNECTION,
} from '../limits.ts';

interface SharedSession {
  readonly session: ClientHttp2Session;
  streams: number;
}

/** The HTTP/2 connections of one client. Requests to one server share a connection until it is full. */
export class Http2Sessions {
  readonly #byRoute = new Map<string, SharedSession>();
  readonly #all = new Set<ClientHttp2Session>();
  /** Connections that are being opened and may become sessions, by route. */
  readonly #openings = new Map<string, Promise<unknown>>();
  /** Routes whose servers speak only HTTP/1.1. */
  readonly #http1 = new Set<string>();
  readonly #idleMs: number;

  constructor(idleMs: number) {
    this.#idleMs = idleMs;
  }

  /** A session with a free stream slot, and a function that frees the slot; null when there is none. */
  acquire(key: string): { readonly session: ClientHttp2Session; release(): void } | null {
    const shared = this.#byRoute.get(key);
    if (shared === undefined || shared.session.closed || shared.session.destroyed) return null;
    const { maxConcurrentStreams = MAX_STREAMS_PER_HTTP2_CONNECTION } = shared.session.remoteSettings ?? {};
    if (shared.streams >= Math.min(maxConcurrentStreams, MAX_STREAMS_PER_HTTP2_CONNECTION)) return null;
    shared.streams++;
    let acquired = true;
    const release = () => {
      if (!acquired) return;
      acquired = false;
      shared.streams--;
      // The idle timeout may have fired, and been ignored, while streams were open.
      if (shared.streams === 0) shared.session.setTimeout(this.#idleMs);
    };
    return { session: shared.session, release };
  }

  /** A connection that is being opened and may become a session. Settles when the protocol is known or the attempt has failed. */
  opening(key: string): Promise<unknown> | null {
    return this.#openings.get(key) ?? null;
  }

  /** Remembers the protocol that a new connection negotiates; null stands for one that became a session. */
  trackOpening(key: string, opening: Promise<object | null>): void {
    if (this.#http1.has(key)) return;
    const known = opening.then(
      (socket) => {
        if (socket === null) return;
        // A forgotten route is probed again.
        if (this.#http1.size >= MAX_KNOWN_ROUTES) this.#http1.clear();
        this.#http1.add(key);
      },
      () => {},
    );
    this.#openings.set(key, known);
    void known.then(() => {
      if (this.#openings.get(key) === known) this.#openings.delete(key);
    });
  }

  /** Creates a session on a connection whose server has chosen HTTP/2. */
  add(key: string, origin: string, socket: TLSSocket): void {
    const session = connect(origin, {
      createConnection: () => socket,
      // Refuses server push.
      settings: { enablePush: false, initialWindowSize: HTTP2_STREAM_WINDOW_BYTES },
      maxHeaderListPairs: MAX_HTTP2_RESPONSE_HEADERS,
    });
    session.once('connect', () => session.setLocalWindowSize(HTTP2_CONNECTION_WINDOW_BYTES));
    const shared = { session, streams: 0 };
    this.#byRoute.set(key, shared);
    this.#all.add(session);
    const forget = () => {
      if (this.#byRoute.get(key) === shared) this.#byRoute.delete(key);
    };
    // Each request gets the error itself.
    session.on('error', () => {});
    session.on('goaway', forget);
    session.on('close', () => {
      forget();
      this.#all.delete(session);
    });
    session.setTimeout(this.#idleMs);
    session.on('timeout', () => {
      if (shared.streams === 0) session.close();
    });
  }

  close(): void {
    for (const session of this.#all) session.destroy();
  }
}
