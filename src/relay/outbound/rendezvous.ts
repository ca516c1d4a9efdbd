import {
  connectFrameSocket,
  type FrameSocket,
  type FrameSocketOptions,
} from '../../transport/frame-socket.ts';
import { MAX_FRAME_BYTES, PEER_SILENCE_MS, PING_INTERVAL_MS, SOCKET_CONNECT_TIMEOUT_MS } from '../limits.ts';
import { isLoopbackHost } from './loopback.ts';
import { type OutboundOptions, openTunnel } from './tunnel.ts';

/** What one end of a relay asks of its rendezvous. */
export interface RendezvousOptions extends OutboundOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** What becomes of text messages, of which the protocol has none. */
  readonly text: NonNullable<FrameSocketOptions['text']>;
}

/** Opens the websocket of a rendezvous, whose URL is all that it asks for. Rejects with UpgradeRefusedError when it says no. */
export async function openRendezvous(
  url: string,
  { headers = {}, text, ...outbound }: RendezvousOptions,
  signal: AbortSignal,
): Promise<FrameSocket> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(SOCKET_CONNECT_TIMEOUT_MS)]);
  const connection = await openTunnel(new URL(url), outbound, limited);
  const connecting = connectFrameSocket(url, {
    headers,
    text,
    zeroMask: isPrivate(new URL(url)),
    signal: limited,
    maxMessageBytes: MAX_FRAME_BYTES,
    pingIntervalMs: PING_INTERVAL_MS,
    peerSilenceTimeoutMs: PEER_SILENCE_MS,
    ...(connection !== undefined && { connection }),
    ...(outbound.tls !== undefined && { tls: outbound.tls }),
  });
  // Who gives up in between leaves the tunnel to nobody.
  connecting.catch(() => connection?.destroy());
  return connecting;
}

/** A URL without what may be secret in it. */
export function nameOf(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/** Whether nobody but the rendezvous can read what is sent there. */
function isPrivate({ protocol, hostname }: URL): boolean {
  return protocol === 'wss:' || isLoopbackHost(hostname);
}
