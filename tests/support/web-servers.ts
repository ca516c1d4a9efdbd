import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createSecureServer } from 'node:http2';
import { createServer as createSecureHttp1Server } from 'node:https';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** A web server on this machine, for one test. */
export interface WebServer {
  /** Its origin. */
  readonly url: string;
  readonly port: number;
  /** Open connections. */
  readonly connections: ReadonlySet<Duplex>;
  /** All connections so far. */
  readonly opened: number;
  close(): Promise<void>;
}

export function webServer(listener: RequestListener): Promise<WebServer> {
  return listening(createServer(listener), 'http');
}

/** With TLS, HTTP/1.1 only. */
export function secureWebServer(
  certificate: { readonly cert: string; readonly key: string },
  listener: RequestListener,
): Promise<WebServer> {
  return listening(createSecureHttp1Server(certificate, listener), 'https');
}

/** With TLS, and HTTP/2 for clients that support it. */
export function http2WebServer(
  certificate: { readonly cert: string; readonly key: string },
  listener: RequestListener,
): Promise<WebServer> {
  const server = createSecureServer({ ...certificate, allowHTTP1: true }, listener as never);
  return listening(server as unknown as Server, 'https');
}

/** A proxy that tunnels and forwards; `seen` has the request line and credentials of each request. */
export async function proxyServer(): Promise<
  WebServer & { readonly seen: readonly { line: string; authorization: string | undefined }[] }
> {
  const seen: { line: string; authorization: string | undefined }[] = [];
  const record = ({ method, url, headers }: IncomingMessage) =>
    seen.push({ line: `${method} ${url}`, authorization: headers['proxy-authorization'] });
  const server = createServer((request, response) => {
    record(request);
    response.end(`through the proxy: ${request.url}`);
  });
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    record(request);
    const [host, port] = (request.url ?? '').split(':');
    const target = connect(Number(port), host, () => socket.write('HTTP/1.1 200 Connected\r\n\r\n'));
    target.pipe(socket).pipe(target);
    for (const end of [target, socket]) {
      end.on('error', () => {});
      end.on('close', () => {
        target.destroy();
        socket.destroy();
      });
    }
  });
  return { ...(await listening(server, 'http')), seen };
}

/** Accepts connections and never responds. */
export function silentServer(): Promise<WebServer> {
  // Reads, because it would not notice the end of a connection otherwise.
  return listening(createTcpServer((socket) => socket.resume()) as Server, 'http');
}

/** Starts a server on a free port. */
export async function listening(server: Server, scheme: 'http' | 'https'): Promise<WebServer> {
  const connections = new Set<Duplex>();
  let opened = 0;
  server.on('connection', (socket: Socket) => {
    opened++;
    connections.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => connections.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `${scheme}://127.0.0.1:${port}`,
    port,
    connections,
    get opened() {
      return opened;
    },
    close: async () => {
      for (const socket of connections) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
