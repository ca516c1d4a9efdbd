import { UpgradeRefusedError } from '../../transport/open-websocket.ts';
import type { TlsOptions } from '../../transport/tls-options.ts';
import type { Transport } from '../../transport/transport.ts';
import { connectWebSocket, WebSocketTransport } from '../../transport/websocket.ts';
import { ClientError } from '../errors.ts';
import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from '../limits.ts';
import { parseServerUrl, refusedUpgrade, unreachable } from './server-url.ts';
import { tlsError, unansweredError } from './socket-errors.ts';

/** Options of a websocket connection. */
interface WebSocketSettings {
  /** `ws:`, `wss:` or `unix:///PATH`. */
  readonly url: string;
  /** Sent as `Authorization: Bearer` with every connection. */
  readonly authToken?: string | undefined;
  readonly tls?: TlsOptions | undefined;
  readonly maxMessageBytes: number;
  readonly pingIntervalMs: number;
  readonly pongTimeoutMs: number;
  /** Whether this address has answered before. */
  readonly hasWorked?: boolean;
}

/** Opens a websocket. Rejects with a ClientError; `retryable` says whether another attempt can succeed. */
export async function openWebSocket(settings: WebSocketSettings, signal: AbortSignal): Promise<Transport> {
  const { authToken, tls, maxMessageBytes, pingIntervalMs, pongTimeoutMs, hasWorked = false } = settings;
  const { href, name } = parseServerUrl(settings.url);
  if (authToken !== undefined && NOT_IN_TOKENS.test(authToken)) {
    throw new ClientError('config', 'the token contains characters that a header cannot carry', {
      hint: 'remove spaces and newlines from the token',
    });
  }
  try {
    return await connectWebSocket(href, {
      maxMessageBytes,
      pingIntervalMs,
      peerSilenceTimeoutMs: pongTimeoutMs,
      signal,
      ...(authToken !== undefined && { headers: { Authorization: `Bearer ${authToken}` } }),
      ...(tls !== undefined && { tls }),
    });
  } catch (error) {
    if (error instanceof UpgradeRefusedError) {
      const { status, location } = error;
      throw refusedUpgrade(name, { status, location }, { hasToken: authToken !== undefined, cause: error });
    }
    const hasCertificate = tls?.cert !== undefined;
    throw (
      tlsError(name, error, { hasCertificate }) ??
      unansweredError(name, error, { hasCertificate, hasWorked }) ??
      unreachable(name, error)
    );
  }
}

/**
 * A websocket of the package `ws` after its handshake, with no listeners attached. These members distinguish it from a browser's.
 * Users of this package need no type declarations of `ws`.
 */
interface OpenWebSocket {
  readonly readyState: number;
  readonly isPaused: boolean;
  pause(): void;
  resume(): void;
  terminate(): void;
}

/**
 * Creates a transport from a websocket that a server opened to this program. The caller has authenticated the
 * server.
 */
export function webSocketTransport(socket: OpenWebSocket): Transport {
  return new WebSocketTransport(socket as ConstructorParameters<typeof WebSocketTransport>[0], {
    maxMessageBytes: MAX_MESSAGE_BYTES,
    pingIntervalMs: PING_INTERVAL_MS,
    peerSilenceTimeoutMs: PEER_SILENCE_TIMEOUT_MS,
  });
}

/** A header value consists of visible characters. A token read from a file often ends with a newline. */
const NOT_IN_TOKENS = /[^\x21-\x7e]/;
