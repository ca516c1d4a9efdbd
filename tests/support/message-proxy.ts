import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket, WebSocketServer } from 'ws';

export type Direction = 'toServer' | 'toClient';

/**
 * A message on its way: where it goes, how many passed on this connection before, how many of them in its direction, and how many
 * connections came before.
 */
export interface Passing {
  readonly direction: Direction;
  readonly index: number;
  readonly place: number;
  readonly connection: number;
  readonly text: string;
}

/**
 * What happens to a message: `swallow` cuts the connection in its place, `last` behind it; `swap` lets the next one of its direction
 * go first, if one comes soon, and a number holds it and all behind it for so many milliseconds.
 */
export type Fate = 'pass' | 'swallow' | 'last' | 'drop' | 'twice' | 'swap' | number;

/** A link between clients and a server that a test can disturb at any message. */
export class MessageProxy {
  /** Every message that arrived here, in order. */
  readonly log: Passing[] = [];
  readonly #front: WebSocketServer;
  readonly #target: string;
  readonly #judge: (message: Passing) => Fate;
  #connections = 0;

  private constructor(target: string, judge: (message: Passing) => Fate) {
    this.#target = target;
    this.#judge = judge;
    this.#front = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    this.#front.on('connection', (near) => this.#join(near));
  }

  static async open(target: string, judge: (message: Passing) => Fate = () => 'pass'): Promise<MessageProxy> {
    const proxy = new MessageProxy(target, judge);
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
    const far = new WebSocket(this.#target);
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
      let held: string | null = null;
      let place = 0;
      let queue: Promise<unknown> = ready;
      const send = (text: string) => {
        if (to.readyState === WebSocket.OPEN) to.send(text);
      };
      const release = () => {
        if (held !== null) send(held);
        held = null;
      };
      const pass = async (text: string): Promise<void> => {
        if (from.readyState !== WebSocket.OPEN) return;
        const message = { direction, index: index++, place: place++, connection, text };
        this.log.push(message);
        const fate = this.#judge(message);
        if (typeof fate === 'number') await delay(fate);
        if (fate === 'swallow') return cut();
        if (fate === 'swap') {
          release();
          held = text;
          setTimeout(release, SWAP_WAIT_MS);
          return;
        }
        if (fate !== 'drop') send(text);
        if (fate === 'twice') send(text);
        release();
        if (fate === 'last') await lastWord(to).then(cut);
      };
      from.on('message', (data) => {
        queue = queue.then(() => pass(String(data))).catch(() => undefined);
      });
    };
    lane('toServer', near, far);
    lane('toClient', far, near);
  }
}

/** How long a message waits for the one that is to go first. */
const SWAP_WAIT_MS = 30;

/** Resolves when everything that was sent has reached the other end. */
async function lastWord(socket: WebSocket): Promise<void> {
  const answered = once(socket, 'pong');
  socket.ping();
  await answered;
}
