import { createSocket, type Socket as DatagramSocket, type SocketType } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6, type Socket } from 'node:net';
import type { Admission, Admitted } from './admission.ts';
import { parseHost } from './host.ts';
import {
  MAX_ASSOCIATIONS,
  MAX_UDP_QUEUE_BYTES,
  MAX_UDP_TARGETS,
  MAX_WAITING_DATAGRAMS,
  UDP_IDLE_MS,
} from './limits.ts';
import { decodeAddress, encodeAddress } from './socks5-address.ts';

/** The UDP relays of one proxy. Each ends with the connection that requested it. */
export class UdpAssociations {
  readonly #admission: Admission;
  #open = 0;

  constructor(admission: Admission) {
    this.#admission = admission;
  }

  /** Opens a relay for the client of a connection. Resolves to its port, or to null when there are too many. */
  async open(control: Socket): Promise<number | null> {
    if (this.#open >= MAX_ASSOCIATIONS) return null;
    this.#open++;
    control.once('close', () => this.#open--);
    return new UdpAssociation(this.#admission, control).listen();
  }
}

/** A destination of datagrams, which wait until it is decided. A null address means that it is blocked. */
interface Target {
  address: string | null;
  waiting: Buffer[] | null;
}

class UdpAssociation {
  readonly #admission: Admission;
  readonly #control: Socket;
  readonly #gone = new AbortController();
  readonly #near = createSocket('udp4');
  readonly #far = new Map<SocketType, DatagramSocket>();
  readonly #targets = new Map<string, Target>();
  /** Addresses and ports that were sent to and therefore may reply. */
  readonly #known = new Set<string>();
  readonly #idle: NodeJS.Timeout;
  /** The program's port, known after its first datagram. */
  #clientPort: number | null = null;

  constructor(admission: Admission, control: Socket) {
    this.#admission = admission;
    this.#control = control;
    this.#idle = setTimeout(() => control.destroy(), UDP_IDLE_MS);
    control.once('close', () => this.#close());
  }

  async listen(): Promise<number> {
    this.#near.on('error', () => this.#control.destroy());
    this.#near.on('message', (datagram, { address, port }) => {
      if (address !== '127.0.0.1' || (this.#clientPort ?? port) !== port) return;
      this.#clientPort = port;
      this.#idle.refresh();
      this.#outward(datagram);
    });
    this.#near.bind(0, '127.0.0.1');
    await once(this.#near, 'listening');
    return this.#near.address().port;
  }

  /** Drops fragments, datagrams without an address, and those to too many destinations. UDP permits dropping any datagram. */
  #outward(datagram: Buffer): void {
    const decoded = datagram[2] === 0 ? decodeAddress(datagram, 3) : null;
    if (decoded === null || decoded.port === 0) return;
    const { host, port, end } = decoded;
    const target = this.#targets.get(`${host} ${port}`) ?? this.#decide(host, port);
    const data = datagram.subarray(end);
    if (target?.waiting != null) {
      if (target.waiting.length < MAX_WAITING_DATAGRAMS) target.waiting.push(data);
    } else if (target?.address != null) {
      this.#send(target.address, port, data);
    }
  }

  #decide(text: string, port: number): Target | null {
    const host = parseHost(text);
    if (host === null || this.#targets.size >= MAX_UDP_TARGETS) return null;
    const target: Target = { address: null, waiting: [] };
    this.#targets.set(`${text} ${port}`, target);
    const client = `127.0.0.1:${this.#clientPort}`;
    const access = { protocol: 'socks5_udp', host, port, method: null, client } as const;
    const settle = (admitted: Admitted) => {
      const waiting = target.waiting ?? [];
      target.waiting = null;
      if (admitted.block !== undefined || this.#gone.signal.aborted) return;
      target.address = admitted.addresses[0] ?? null;
      if (target.address === null) return;
      this.#known.add(`${target.address} ${port}`);
      for (const data of waiting) this.#send(target.address, port, data);
    };
    this.#admission.admit(access, this.#gone.signal).then(settle, () => this.#control.destroy());
    return target;
  }

  #send(address: string, port: number, data: Buffer): void {
    const socket = this.#farSocket(isIPv6(address) ? 'udp6' : 'udp4');
    if (socket.getSendQueueSize() < MAX_UDP_QUEUE_BYTES) socket.send(data, port, address, () => {});
  }

  #farSocket(type: SocketType): DatagramSocket {
    const existing = this.#far.get(type);
    if (existing !== undefined) return existing;
    const socket = createSocket(type);
    this.#far.set(type, socket);
    // An unreachable destination affects only its own datagrams.
    socket.on('error', () => {});
    socket.on('message', (data, { address, port }) => {
      if (this.#clientPort === null || !this.#known.has(`${address} ${port}`)) return;
      this.#idle.refresh();
      if (this.#near.getSendQueueSize() >= MAX_UDP_QUEUE_BYTES) return;
      const datagram = Buffer.concat([Buffer.alloc(3), encodeAddress(address, port), data]);
      this.#near.send(datagram, this.#clientPort, '127.0.0.1', () => {});
    });
    return socket;
  }

  #close(): void {
    clearTimeout(this.#idle);
    this.#gone.abort();
    this.#near.close();
    for (const socket of this.#far.values()) socket.close();
  }
}
