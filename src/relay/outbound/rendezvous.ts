import { TimeLimit } from '../../base/time-limit.ts';
import {
  connectFrameSocket,
  type FrameSocket,
  type FrameSocketOptions,
} from '../../transport/frame-socket.ts';
import { MAX_FRAME_BYTES, PEER_SILENCE_MS, PING_INTERVAL_MS, SOCKET_CONNECT_TIMEOUT_MS } from '../limits.ts';
import { type OutboundOptions, openTunnel } from './proxy.ts';

/** Options of a connection to the rendezvous. */
interface RendezvousOptions extends OutboundOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** How to treat text messages, which the protocol does not use. */
  readonly text: NonNullable<FrameSocketOptions['text']>;
}

/** Opens a websocket to the rendezvous. The URL contains the credential. Rejects with UpgradeRefusedError when refused. */
export function openRendezvous(
  url: string,
  options: RendezvousOptions,
  signal: AbortSignal,
): Promise<FrameSocket> {
  return TimeLimit.run(SOCKET_CONNECT_TIMEOUT_MS, signal, (limited) => connect(url, options, limited));
}

async function connect(
  url: string,
  { headers = {}, text, ...outbound }: RendezvousOptions,
  signal: AbortSignal,
): Promise<FrameSocket> {
  const connection = await openTunnel(new URL(url), outbound, signal);
  const connecting = connectFrameSocket(url, {
    headers,
    text,
    signal,
    maxMessageBytes: MAX_FRAME_BYTES,
    pingIntervalMs: PING_INTERVAL_MS,
    peerSilenceTimeoutMs: PEER_SILENCE_MS,
    ...(connection !== undefined && { connection }),
    ...(outbound.tls !== undefined && { tls: outbound.tls }),
  });
  // A failed upgrade leaves the tunnel without an owner.
  connecting.catch(() => connection?.destroy());
  return connecting;
}

/** Removes user info and query of a URL, which may contain secrets. For logs. */
export function withoutQuery(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
