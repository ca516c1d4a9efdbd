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

/** Opens a websocket. Rejects with a ClientError; `retryable` says whether another attempt can succeed. */
export async function openWebSocket(settings: WebSocketSettings, signal: AbortSignal): Promise<Transport> {
  const { authToken, tls, maxMessageBytes, pingIntervalMs, pongTimeoutMs } = settings;
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
      throw refusedUpgrade(name, error.status, { hasToken: authToken !== undefined, cause: error });
    }
    const { message } = error as Error;
    if (NO_TLS.test(message)) throw withoutTls(name, error);
    if (CERTIFICATE_NEEDED.test(message) && tls?.cert === undefined) throw withoutCertificate(name, error);
    throw TLS_FAILURE.test(codeOf(error)) ? untrusted(name, error) : unreachable(name, error);
  }
}

/** A websocket of the package `ws` after its handshake, with no listeners attached. */
type OpenWebSocket = ConstructorParameters<typeof WebSocketTransport>[0];

/**
 * Creates a transport from a websocket that a server opened to this program. The caller has authenticated the
 * server.
 */
export function webSocketTransport(socket: OpenWebSocket): Transport {
  return new WebSocketTransport(socket, {
    maxMessageBytes: MAX_MESSAGE_BYTES,
    pingIntervalMs: PING_INTERVAL_MS,
    peerSilenceTimeoutMs: PEER_SILENCE_TIMEOUT_MS,
  });
}

/** A header value consists of visible characters. A token read from a file often ends with a newline. */
const NOT_IN_TOKENS = /[^\x21-\x7e]/;

/** Node's error codes for certificate and TLS handshake failures. */
const TLS_FAILURE = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|ERR_OSSL|EPROTO/;

/** OpenSSL's message when the peer does not speak TLS. */
const NO_TLS = /wrong version number/;

/** OpenSSL's message when the peer wants a client certificate. TLS 1.2 has no alert of its own for that. */
const CERTIFICATE_NEEDED = /alert certificate required/;

function withoutCertificate(name: string, cause: unknown): ClientError {
  return new ClientError('connectFailed', `${name} requires a client certificate`, {
    cause,
    hint: 'pass one that its certificate authority has signed as `tls.cert` and `tls.key`',
  });
}

function withoutTls(name: string, cause: unknown): ClientError {
  return new ClientError('connectFailed', `${name} does not speak TLS`, {
    cause,
    hint: 'use ws:// for a server without a certificate',
  });
}

function untrusted(name: string, cause: unknown): ClientError {
  return new ClientError(
    'connectFailed',
    `the certificate of ${name} is not trusted: ${(cause as Error).message}`,
    {
      cause,
      hint: 'pass the certificate of its certificate authority as `tls.ca`',
    },
  );
}

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}
