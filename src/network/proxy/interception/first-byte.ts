import type { Socket } from 'node:net';
import { IDLE_TIMEOUT_MS } from '../limits.ts';

/**
 * The first byte that the client sends, which is left for whoever reads next. Null when the other side speaks first, or one of them
 * goes: then it is no protocol in which a client begins. Where nobody ever says anything both end, as everywhere after a time.
 */
export function firstByte(client: Socket, upstream: Socket): Promise<number | null> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      for (const socket of [client, upstream]) socket.destroy();
    }, IDLE_TIMEOUT_MS);
    const settle = (byte: number | null) => {
      clearTimeout(timer);
      client.off('readable', onClient);
      upstream.off('readable', onUpstream);
      for (const socket of [client, upstream]) socket.off('close', onUpstream);
      resolve(byte);
    };
    const onClient = () => {
      const bytes: Buffer | null = client.read();
      if (bytes !== null) client.unshift(bytes);
      settle(bytes?.[0] ?? null);
    };
    const onUpstream = () => settle(null);
    client.on('readable', onClient);
    upstream.on('readable', onUpstream);
    for (const socket of [client, upstream]) socket.on('close', onUpstream);
    if (client.destroyed || upstream.destroyed) settle(null);
  });
}
