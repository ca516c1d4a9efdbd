import { once, setMaxListeners } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { Owner } from '../base/fair-shares.ts';
import { closeServers } from './close-servers.ts';
import { NetworkError } from './errors.ts';
import { MAX_BRIDGED_PORTS } from './limits.ts';
import { MAX_CONNECTIONS } from './proxy/limits.ts';
import type { ProxyResources } from './proxy/proxy-resources.ts';
import { abortOnClose, connectToOne, joinSockets } from './proxy/tunnel.ts';

type BridgeResources = Pick<ProxyResources, 'serverPorts' | 'admitConnection'>;

/**
 * Lets a program in its own network namespace reach certain ports of this machine's 127.0.0.1 under the same numbers, and nothing
 * else. The program connects to sockets that listen in its namespace but are served by this process, so no helper runs inside.
 */
export class LoopbackBridge {
  readonly #resources: BridgeResources;
  readonly #owner: Owner;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #closing = new AbortController();

  /** Connections to the server's own ports are refused. The others count for the owner, the session of the program. */
  constructor(resources: BridgeResources, owner: Owner) {
    this.#resources = resources;
    this.#owner = owner;
    // Every connection attempt adds a listener; their number is bounded.
    setMaxListeners(0, this.#closing.signal);
  }

  /** Serves listening sockets, in the order of the ports, and owns them from then on. */
  async serve(ports: readonly number[], descriptors: readonly number[]): Promise<void> {
    await Promise.all(
      ports.map((port, index) => {
        const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
          this.#forward(socket, port),
        );
        server.maxConnections = MAX_CONNECTIONS;
        this.#servers.push(server);
        server.listen({ fd: descriptors[index]! });
        return once(server, 'listening');
      }),
    );
  }

  /** Stops listening and destroys all connections. */
  async close(): Promise<void> {
    this.#closing.abort();
    await closeServers(this.#servers, this.#sockets);
  }

  #forward(socket: Socket, port: number): void {
    socket.on('error', () => {});
    if (!this.#resources.admitConnection(socket, this.#owner)) return;
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    if (this.#resources.serverPorts.includes(LOOPBACK, port)) {
      socket.destroy();
      return;
    }
    connectToOne([LOOPBACK], port, abortOnClose(socket, this.#closing.signal)).then(
      (upstream) => joinSockets(socket, upstream),
      () => socket.destroy(),
    );
  }
}

const LOOPBACK = '127.0.0.1';

/**
 * The loopback ports of all proxies that an environment names, without duplicates. Throws NetworkError when no variable names a
 * proxy, or none a proxy on this machine's loopback: a program that may only use its proxy would then have no network.
 */
export function loopbackProxyPorts(env: Readonly<Record<string, string>>): number[] {
  const values = Object.entries(env).filter(([name, value]) => PROXY_VARIABLE.test(name) && value !== '');
  if (values.length === 0) {
    throw new NetworkError('invalid', 'managed proxy mode requires proxy environment variables');
  }
  const ports = new Set(values.map(([, value]) => loopbackPort(value)).filter((port) => port !== null));
  if (ports.size === 0) {
    throw new NetworkError('invalid', 'managed proxy mode requires parseable loopback proxy endpoints');
  }
  if (ports.size > MAX_BRIDGED_PORTS) {
    throw new NetworkError(
      'limit',
      `the environment names proxies on ${ports.size} ports; at most ${MAX_BRIDGED_PORTS} are supported`,
    );
  }
  return [...ports];
}

const PROXY_VARIABLE = /^(?:(?:.*_)?(?:HTTPS?|WSS?|ALL|FTP)_PROXY|PIP_PROXY|NPM_CONFIG_PROXY)$/i;

/** Null unless the value is a URL or a bare authority of 127.0.0.1 or localhost. */
function loopbackPort(value: string): number | null {
  const [, scheme = 'http', host = '', port] = ENDPOINT.exec(value) ?? [];
  if (host !== '127.0.0.1' && host.toLowerCase() !== 'localhost') return null;
  const number = port === undefined ? DEFAULT_PORTS[scheme.toLowerCase()] : Number(port);
  return number !== undefined && number >= 1 && number <= 65_535 ? number : null;
}

const ENDPOINT = /^(?:([a-z][a-z0-9+.-]*):\/\/)?(?:[^@/]*@)?([^:@/]+)(?::(\d{1,5}))?(?:\/.*)?$/i;

const DEFAULT_PORTS: Readonly<Record<string, number>> = {
  http: 80,
  https: 443,
  socks: 1080,
  socks4: 1080,
  socks4a: 1080,
  socks5: 1080,
  socks5h: 1080,
};
