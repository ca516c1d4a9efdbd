import { openWebSocket } from '../../client/connection/open-websocket.ts';
import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from '../../client/limits.ts';
import type { Transport } from '../../transport/transport.ts';
import type { TransportChoice } from './target.ts';

/** Opens a connection to a server without a session. Rejects with ClientError. */
export async function openTransport(choice: TransportChoice, signal: AbortSignal): Promise<Transport> {
  if ('open' in choice) return choice.open(signal);
  return openWebSocket(
    {
      url: String(choice.url),
      authToken: choice.authToken,
      tls: choice.tls,
      maxMessageBytes: MAX_MESSAGE_BYTES,
      pingIntervalMs: PING_INTERVAL_MS,
      pongTimeoutMs: PEER_SILENCE_TIMEOUT_MS,
    },
    signal,
  );
}
