import { createServer, type RequestListener } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { Socket } from 'node:net';
import { listening, type WebServer } from './web-servers.ts';

/** A proxy that answers HTTPS requests in the name of every host. */
interface TlsInterceptor extends WebServer {
  /** The hosts and ports that clients asked for. */
  readonly targets: readonly string[];
}

/** Opens a proxy with the certificate of the hosts. `answer` returns the response to a path and a body. */
export async function tlsInterceptor(
  certificate: { readonly cert: string; readonly key: string },
  answer: (path: string, text: string) => string,
): Promise<TlsInterceptor> {
  const targets: string[] = [];
  const respond: RequestListener = async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    response.end(answer(request.url!, Buffer.concat(parts).toString()));
  };
  // It never listens: the proxy hands its connections over.
  const inner = createSecureServer(certificate, respond);
  const proxy = createServer();
  proxy.on('connect', (request, socket: Socket) => {
    targets.push(request.url!);
    socket.write('HTTP/1.1 200 Connected\r\n\r\n');
    inner.emit('connection', socket);
  });
  return { ...(await listening(proxy, 'http')), targets };
}
