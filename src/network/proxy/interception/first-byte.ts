import type { Socket } from 'node:net';

/**
 * The first byte that the client sends, which is left for whoever reads next. Null when the other side speaks first, or one of them
 * goes: then it is no protocol in which a client begins.
 */
export function firstByte(client: Socket, upstream: Socket): Promise<number | null> {
  return new Promise((resolve) => {
    const settle = (byte: number | null) => {
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
