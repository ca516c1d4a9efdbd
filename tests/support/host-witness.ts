import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { chmodSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { waitFor } from './wait-for.ts';

/** A message that reached the host. */
interface Arrival {
  readonly by: 'tcp' | 'udp' | 'path' | 'abstract';
  said: string;
}

/**
 * Listens on all addresses of this machine, on a unix socket path and on an abstract name, and records what arrives. A connection counts
 * even without data. Data on a connection is answered like an HTTP request.
 */
export class HostWitness {
  readonly port: number;
  readonly udpPort: number;
  readonly path: string;
  readonly abstract: string;
  readonly #arrivals: Arrival[] = [];
  readonly #servers: readonly Server[];
  readonly #datagrams: DatagramSocket;
  readonly #sockets = new Set<Socket>();
  #looks = 0;

  private constructor(path: string, abstract: string, servers: readonly Server[], datagrams: DatagramSocket) {
    this.path = path;
    this.abstract = abstract;
    this.#servers = servers;
    this.#datagrams = datagrams;
    this.port = (servers[0]!.address() as AddressInfo).port;
    this.udpPort = datagrams.address().port;
    for (const [index, by] of (['tcp', 'path', 'abstract'] as const).entries()) {
      servers[index]!.on('connection', (socket: Socket) => this.#met(by, socket));
    }
    datagrams.on('message', (message) => this.#arrivals.push({ by: 'udp', said: String(message) }));
  }

  /** `path` is that of the unix socket to create. */
  static async open(path: string): Promise<HostWitness> {
    const abstract = `witness-${path}`;
    const servers = await Promise.all([
      listening((server) => server.listen(0)),
      listening((server) => server.listen(path)),
      listening((server) => server.listen(`\0${abstract}`)),
    ]);
    chmodSync(path, 0o777);
    const datagrams = createSocket({ type: hasIpv6() ? 'udp6' : 'udp4' });
    datagrams.bind(0);
    await once(datagrams, 'listening');
    return new HostWitness(path, abstract, servers, datagrams);
  }

  /** The addresses, as environment variables for a program. */
  get env(): Readonly<Record<string, string>> {
    return {
      WITNESS: String(this.port),
      WITNESS_UDP: String(this.udpPort),
      WITNESS_PATH: this.path,
      WITNESS_ABSTRACT: this.abstract,
    };
  }

  /** Everything that arrived since the last call. Connects to itself last, to know that all earlier arrivals were handled. */
  async arrivals(): Promise<readonly string[]> {
    const mark = `look ${++this.#looks}`;
    connect(this.port, '127.0.0.1').end(mark);
    connect(this.path).end(mark);
    connect(`\0${this.abstract}`).end(mark);
    const datagram = createSocket('udp4');
    datagram.send(mark, this.udpPort, '127.0.0.1', () => datagram.close());
    const isMark = ({ said }: Arrival) => said === mark;
    await waitFor('the visits of the witness', () => this.#arrivals.filter(isMark).length === 4);
    const arrived = this.#arrivals.splice(0).filter((arrival) => !isMark(arrival));
    return arrived.map(({ by, said }) => `${by}: ${said}`);
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all([
      ...this.#servers.map((server) => once(server.close(), 'close')),
      once(this.#datagrams.close(), 'close'),
    ]);
  }

  #met(by: Arrival['by'], socket: Socket): void {
    const arrival: Arrival = { by, said: '' };
    this.#arrivals.push(arrival);
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('data', (data) => {
      arrival.said += data.toString('latin1');
      socket.end('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\nreached');
    });
  }
}

/** The external addresses of this machine. */
export function hostAddresses(): readonly string[] {
  return Object.values(networkInterfaces())
    .flatMap((entries) => entries ?? [])
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80'))
    .map(({ address }) => address);
}

function hasIpv6(): boolean {
  return Object.values(networkInterfaces()).some((entries) =>
    entries?.some(({ family }) => family === 'IPv6'),
  );
}

async function listening(listen: (server: Server) => void): Promise<Server> {
  const server = createServer();
  listen(server);
  await once(server, 'listening');
  return server;
}
