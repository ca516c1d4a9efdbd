import { type TlsOptions, UpgradeRefusedError } from '../../transport/open-websocket.ts';
import type { Transport } from '../../transport/transport.ts';
import { connectWebSocket, WebSocketTransport } from '../../transport/websocket.ts';
import { ClientError } from '../errors.ts';
import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from '../limits.ts';
import { parseServerUrl, refusedUpgrade, unreachable } from './server-url.ts';

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
}

/** Opens a websocket. Rejects with a ClientError that tells whether another attempt makes sense. */
export async function openWebSocket(settings: WebSocketSettings, signal: AbortSignal): Promise<Transport> {
  const { authToken, tls, maxMessageBytes, pingIntervalMs, pongTimeoutMs } = settings;
  const { href, name } = parseServerUrl(settings.url);
  if (authToken !== undefined && NOT_IN_TOKENS.test(authToken)) {
    throw new ClientError('config', 'the token has characters that no token can have', {
      hint: 'remove spaces and line ends around it',
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
      throw refusedUpgrade(name, error.status, { hasToken: authToken !== undefined, cause: error });
    }
    if (NO_TLS.test((error as Error).message)) throw withoutTls(name, error);
    throw TLS_FAILURE.test(codeOf(error)) ? untrusted(name, error) : unreachable(name, error);
  }
}

/** A websocket of the package `ws` whose handshake is done, and which nobody reads from yet. */
type OpenWebSocket = ConstructorParameters<typeof WebSocketTransport>[0];

/** The transport of a connection that a server has opened to this side. The caller has made sure who that is. */
export function webSocketTransport(socket: OpenWebSocket): Transport {
  return new WebSocketTransport(socket, {
    maxMessageBytes: MAX_MESSAGE_BYTES,
    pingIntervalMs: PING_INTERVAL_MS,
    peerSilenceTimeoutMs: PEER_SILENCE_TIMEOUT_MS,
  });
}

/** A header carries visible characters only. A token that was read from a file often ends with a line end. */
const NOT_IN_TOKENS = /[^\x21-\x7e]/;

/** What Node calls failures of certificates and of the handshake that checks them. */
const TLS_FAILURE = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|ERR_OSSL|EPROTO/;

/** What OpenSSL says when something else than TLS comes back. */
const NO_TLS = /wrong version number/;

function withoutTls(name: string, cause: unknown): ClientError {
  return new ClientError('connectFailed', `${name} does not speak TLS`, {
    cause,
    hint: 'write ws:// for a server without a certificate',
  });
}

function untrusted(name: string, cause: unknown): ClientError {
  return new ClientError('connectFailed', `${name} is not trusted: ${(cause as Error).message}`, {
    cause,
    hint: 'pass the certificate of its authority as `tls.ca`',
  });
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}
