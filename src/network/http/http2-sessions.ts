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

/** The HTTP/2 connections of one client. Requests to one server share one until it is full. */
export class Http2Sessions {
  readonly #byRoute = new Map<string, SharedSession>();
  readonly #all = new Set<ClientHttp2Session>();
  /** Connections that are being opened and may become sessions, by route. */
  readonly #firsts = new Map<string, Promise<unknown>>();
  /** Routes whose servers speak HTTP/1.1. */
  readonly #http1 = new Set<string>();
  readonly #idleMs: number;

  constructor(idleMs: number) {
    this.#idleMs = idleMs;
  }

  /** A session with room for a further stream, and what gives the place back; null when there is none. */
  enter(key: string): { readonly session: ClientHttp2Session; leave(): void } | null {
    const shared = this.#byRoute.get(key);
    if (shared === undefined || shared.session.closed || shared.session.destroyed) return null;
    const { maxConcurrentStreams = MAX_STREAMS_PER_HTTP2_CONNECTION } = shared.session.remoteSettings ?? {};
    if (shared.streams >= Math.min(maxConcurrentStreams, MAX_STREAMS_PER_HTTP2_CONNECTION)) return null;
    shared.streams++;
    let entered = true;
    const leave = () => {
      if (!entered) return;
      entered = false;
      shared.streams--;
      // It may have been silent for so long that its time has passed unused.
      if (shared.streams === 0) shared.session.setTimeout(this.#idleMs);
    };
    return { session: shared.session, leave };
  }

  /** A connection that is being opened and may become a session with room; it settles when that is known, or not to be had. */
  first(key: string): Promise<unknown> | null {
    return this.#firsts.get(key) ?? null;
  }

  /** Remembers what is found out by opening a connection, unless it is known; null is one that has become a session. */
  learn(key: string, opening: Promise<object | null>): void {
    if (this.#http1.has(key)) return;
    const known = opening.then(
      (socket) => {
        if (socket === null) return;
        // What is forgotten is only found out again.
        if (this.#http1.size >= MAX_KNOWN_ROUTES) this.#http1.clear();
        this.#http1.add(key);
      },
      () => {},
    );
    this.#firsts.set(key, known);
    void known.then(() => {
      if (this.#firsts.get(key) === known) this.#firsts.delete(key);
    });
  }

  /** Makes a session of a connection whose server has chosen HTTP/2. */
  add(key: string, origin: string, socket: TLSSocket): void {
    const session = connect(origin, {
      createConnection: () => socket,
      // A server must not push what nobody asked for.
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
    // Requests hear of it by themselves.
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
