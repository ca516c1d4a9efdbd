import type { Transport } from '../../transport/transport.ts';
import { WebSocketTransport } from '../../transport/websocket.ts';
import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from '../limits.ts';

/** A websocket of the package `ws` whose handshake is done, and which nobody reads from yet. */
export type OpenWebSocket = ConstructorParameters<typeof WebSocketTransport>[0];

/** The transport of a connection that a server has opened to this side. The caller has made sure who that is. */
export function acceptedWebSocket(socket: OpenWebSocket): Transport {
  return new WebSocketTransport(socket, {
    maxMessageBytes: MAX_MESSAGE_BYTES,
    pingIntervalMs: PING_INTERVAL_MS,
    peerSilenceTimeoutMs: PEER_SILENCE_TIMEOUT_MS,
  });
}
