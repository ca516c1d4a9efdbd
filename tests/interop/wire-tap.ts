import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { ProcessEvents } from '../../src/testing/index.ts';
import { waitFor } from '../support/wait-for.ts';
import { WireFrames } from './wire-frames.ts';
import { within } from './within.ts';

/** A message that passed. */
interface WireMessage {
  /** The number of its connection, from 1. */
  readonly connection: number;
  readonly from: 'client' | 'server';
  readonly method: string | null;
  readonly id: unknown;
  readonly params: Readonly<Record<string, unknown>>;
  readonly result: Readonly<Record<string, unknown>> | null;
  readonly error: { readonly code: number; readonly message: string } | null;
}

/**
 * A proxy between client and server that forwards every byte unchanged, records the messages, and can fail at a chosen moment.
 */
export class WireTap {
  readonly messages: WireMessage[] = [];
  readonly #server: Server;
  readonly #target: { host: string; port: number };
  readonly #links = new Set<Link>();
  readonly #waiters = new Set<(message: WireMessage) => void>();
  #connections = 0;
  #losing: string | null = null;
  #keepServerSides = false;

  private constructor(target: { host: string; port: number }) {
    this.#target = target;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** Opens a tap in front of a websocket URL. */
  static async open(targetUrl: string): Promise<WireTap> {
    const { hostname, port } = new URL(targetUrl);
    const tap = new WireTap({ host: hostname, port: Number(port) });
    tap.#server.listen(0, '127.0.0.1');
    await once(tap.#server, 'listening');
    return tap;
  }

  /** The URL for clients. */
  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The requests and notifications of a method, from either side. */
  calls(method: string): WireMessage[] {
    return this.messages.filter((message) => message.method === method);
  }

  /** The only request or notification of a method. */
  call(method: string): WireMessage {
    const [call, ...others] = this.calls(method);
    if (call === undefined || others.length > 0)
      throw new Error(`${method}: ${others.length + (call ? 1 : 0)} calls`);
    return call;
  }

  /** The server's response to a request; undefined until it arrives. */
  answerTo({ connection, id }: WireMessage): WireMessage | undefined {
    const answers = this.messages.filter(({ from, method }) => from === 'server' && method === null);
    return answers.find((message) => message.connection === connection && message.id === id);
  }

  /** The first message, past or future, that matches. Resolves before the next message is examined. */
  async waitFor(matches: (message: WireMessage) => boolean, what: string): Promise<WireMessage> {
    const past = this.messages.find(matches);
    if (past !== undefined) return past;
    let waiter: (message: WireMessage) => void = () => {};
    const future = new Promise<WireMessage>((resolve) => {
      waiter = (message) => {
        if (matches(message)) resolve(message);
      };
      this.#waiters.add(waiter);
    });
    try {
      return await within(WAIT_MS, future, () => new Error(`${WAIT_MS} ms passed without ${what}`));
    } finally {
      this.#waiters.delete(waiter);
    }
  }

  /** Waits until the server has sent this output of some process. */
  async printed(text: string): Promise<void> {
    const processes = () => this.calls('process/start').map(({ params }) => this.#eventsOf(params.processId));
    const sent = () => processes().some((events) => events.bytes().includes(text));
    await waitFor(`the output ${JSON.stringify(text)}`, sent);
  }

  /** Waits until the server has answered a request of this method on a connection that came after the first. */
  async answeredAfterReconnect(method: string): Promise<WireMessage> {
    const request = await this.waitFor(
      (message) => message.connection > 1 && message.method === method,
      method,
    );
    await waitFor(`the answer to ${method}`, () => this.answerTo(request));
    return request;
  }

  /** The events of the only process that was started. */
  get processEvents(): ProcessEvents {
    return this.#eventsOf(this.call('process/start').params.processId);
  }

  /** The next request of this method reaches the server, but the connection is cut before its response arrives. */
  loseNextAnswerTo(method: string): void {
    this.#losing = method;
  }

  /** Cuts the clients off; the server's connections stay open until `dropServerSides`. */
  dropClientSides(): void {
    this.#keepServerSides = true;
    for (const link of this.#links) link.client.destroy();
  }

  /** Closes the connections that `dropClientSides` left open. */
  dropServerSides(): void {
    this.#keepServerSides = false;
    for (const { client, upstream } of this.#links) {
      if (client.destroyed) upstream.destroy();
    }
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const link of this.#links) cut(link);
    await closed;
  }

  /** The events of a process on all connections, from notifications and `process/read` responses. */
  #eventsOf(processId: unknown): ProcessEvents {
    const events = new ProcessEvents(String(processId));
    for (const message of this.messages) {
      const { method, params } = message;
      if (method === null || params.processId !== processId) continue;
      events.add(method, params);
      if (method === 'process/read') events.addChunks(chunksOf(this.answerTo(message)));
    }
    return events;
  }

  #accept(client: Socket): void {
    const upstream = connect(this.#target);
    const link: Link = { number: ++this.#connections, client, upstream, lost: null };
    this.#links.add(link);
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      socket.on('error', () => socket.destroy());
    }
    client.on('close', () => {
      if (!this.#keepServerSides) upstream.destroy();
    });
    upstream.on('close', () => {
      client.destroy();
      this.#links.delete(link);
    });
    this.#relay(link, 'client');
    this.#relay(link, 'server');
  }

  #relay(link: Link, from: 'client' | 'server'): void {
    const [source, target] = from === 'client' ? [link.client, link.upstream] : [link.upstream, link.client];
    const frames = new WireFrames();
    source.on('data', (bytes: Buffer) => {
      for (const raw of frames.push(bytes)) this.#note(link, from, raw);
      if (from === 'server' && link.lost !== null) return;
      if (!target.write(bytes) && !target.destroyed) {
        source.pause();
        const resume = () => source.resume();
        target.once('drain', resume).once('close', resume);
      }
    });
  }

  #note(link: Link, from: 'client' | 'server', raw: Readonly<Record<string, unknown>>): void {
    const { method = null, id, params, result = null, error = null } = raw as Partial<WireMessage>;
    const message = { connection: link.number, from, method, id, params: params ?? {}, result, error };
    this.messages.push(message);
    for (const waiter of this.#waiters) waiter(message);
    if (from === 'client' && method !== null && method === this.#losing) {
      this.#losing = null;
      link.lost = { id };
    } else if (from === 'server' && method === null && link.lost !== null && id === link.lost.id) {
      cut(link);
    }
  }
}

const WAIT_MS = 20_000;

type Chunks = Parameters<ProcessEvents['addChunks']>[0];

function chunksOf(answer: WireMessage | undefined): Chunks {
  return (answer?.result?.chunks as Chunks | undefined) ?? [];
}

interface Link {
  readonly number: number;
  readonly client: Socket;
  readonly upstream: Socket;
  /** The request whose response must not arrive. */
  lost: { readonly id: unknown } | null;
}

function cut({ client, upstream }: Link): void {
  client.destroy();
  upstream.destroy();
}
