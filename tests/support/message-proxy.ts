import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket, WebSocketServer } from 'ws';
import { isBinaryMessage, splitBinaryMessage } from '../../src/transport/binary-message.ts';

type Direction = 'toServer' | 'toClient';

/**
 * A message that passes the proxy: its direction, the number of earlier messages on this connection, the number in
 * the same direction, and the number of earlier connections.
 */
export interface PassingMessage {
  readonly direction: Direction;
  readonly index: number;
  readonly place: number;
  readonly connection: number;
  /** Its JSON. A binary message has bytes besides. */
  readonly text: string;
}

/**
 * What the proxy does with a message. `swallow` cuts the connection instead of sending it, `last` after sending it.
 * `swap` sends the next message of the direction first, if one comes soon. A number delays it and all later ones by
 * that many milliseconds. A text is sent in its place.
 */
export type MessageAction =
  | 'pass'
  | 'swallow'
  | 'last'
  | 'drop'
  | 'twice'
  | 'swap'
  | number
  | { readonly text: string };

/** A proxy between clients and a server that a test can make fail at any message. */
export class MessageProxy {
  /** Every message that arrived at the proxy, in order. */
  readonly log: PassingMessage[] = [];
  readonly #front: WebSocketServer;
  /** The server of new connections. */
  target: string;
  readonly #decide: (message: PassingMessage) => MessageAction;
  #connections = 0;

  private constructor(target: string, decide: (message: PassingMessage) => MessageAction) {
    this.target = target;
    this.#decide = decide;
    this.#front = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    this.#front.on('connection', (near) => this.#join(near));
  }

  static async open(
    target: string,
    decide: (message: PassingMessage) => MessageAction = () => 'pass',
  ): Promise<MessageProxy> {
    const proxy = new MessageProxy(target, decide);
    await once(proxy.#front, 'listening');
    return proxy;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#front.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const client of this.#front.clients) client.terminate();
    await new Promise((resolve) => this.#front.close(resolve));
  }

  #join(near: WebSocket): void {
    const connection = this.#connections++;
    const far = new WebSocket(this.target);
    const cut = () => {
      near.terminate();
      far.terminate();
    };
    const ready = once(far, 'open').catch(cut);
    let index = 0;
    for (const socket of [near, far]) {
      socket.on('error', () => undefined);
      socket.on('close', cut);
    }
    const lane = (direction: Direction, from: WebSocket, to: WebSocket) => {
      let held: RawMessage | null = null;
      let place = 0;
      let queue: Promise<unknown> = ready;
      const send = ({ data, isBinary }: RawMessage) => {
        if (to.readyState === WebSocket.OPEN) to.send(data, { binary: isBinary });
      };
      const release = () => {
        if (held !== null) send(held);
        held = null;
      };
      const pass = async (raw: RawMessage): Promise<void> => {
        if (from.readyState !== WebSocket.OPEN) return;
        const message = { direction, index: index++, place: place++, connection, text: textOf(raw) };
        this.log.push(message);
        const action = this.#decide(message);
        if (typeof action === 'number') await delay(action);
        if (action === 'swallow') return cut();
        if (action === 'swap') {
          release();
          held = raw;
          setTimeout(release, SWAP_WAIT_MS);
          return;
        }
        if (typeof action === 'object') send({ data: Buffer.from(action.text), isBinary: false });
        else if (action !== 'drop') send(raw);
        if (action === 'twice') send(raw);
        release();
        if (action === 'last') await flushed(to).then(cut);
      };
      from.on('message', (data: Buffer, isBinary) => {
        queue = queue.then(() => pass({ data, isBinary })).catch(() => undefined);
      });
    };
    lane('toServer', near, far);
    lane('toClient', far, near);
  }
}

/** A message as it is sent. */
interface RawMessage {
  readonly data: Buffer;
  readonly isBinary: boolean;
}

function textOf({ data, isBinary }: RawMessage): string {
  return isBinary && isBinaryMessage(data) ? splitBinaryMessage(data).text : String(data);
}

/** How long a message waits for the next one to overtake it. */
const SWAP_WAIT_MS = 30;

/** Resolves when everything that was sent has reached the peer. */
async function flushed(socket: WebSocket): Promise<void> {
  const answered = once(socket, 'pong');
  socket.ping();
  await answered;
}
