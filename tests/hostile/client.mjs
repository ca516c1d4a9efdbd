import WebSocket from 'ws';
import { within } from '../fuzz/peer.mjs';

/** A request that hangs is a failure. Programs, searches and walks of the table take at most a few seconds. */
const ANSWER_TIMEOUT_MS = 30_000;
/** How much of an answer is kept, at both ends. */
const KEPT_BYTES = 300;

/**
 * @typedef {object} Answer
 * @property {'result' | 'error' | 'closed'} kind
 * @property {string} text The first characters.
 */

/** A client that sends valid frames with any text and keeps hardly anything of the answers. */
export class HostileClient {
  #socket;
  #closed;
  #pending = new Map();
  #nextId = 1;

  constructor(socket) {
    this.#socket = socket;
    socket.on('message', (data) => this.#receive(data));
    socket.on('error', () => {});
    this.#closed = new Promise((resolve) => {
      socket.once('close', (code) => {
        resolve();
        for (const settle of this.#pending.values()) settle({ kind: 'closed', text: `close code ${code}` });
        this.#pending.clear();
      });
    });
  }

  /** Connects without a handshake. The mask is zero, which does not change the payload and costs nothing. */
  static async connect(url) {
    const socket = new WebSocket(url, {
      perMessageDeflate: false,
      skipUTF8Validation: true,
      maxPayload: 0,
      generateMask: () => {},
    });
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    return new HostileClient(socket);
  }

  /** Connects and opens a session that ends with the connection. `capabilities` are those of `initialize`. */
  static async open(url, capabilities = {}) {
    const client = await HostileClient.connect(url);
    await client.call('initialize', { clientName: 'hostile', detachedSessionTtlMs: 0, capabilities });
    client.send('{"method":"initialized","params":{}}');
    return client;
  }

  /** The websocket, for frames that are no messages. */
  get socket() {
    return this.#socket;
  }

  /** @param {string | Buffer} message @param {boolean} binary */
  send(message, binary = false) {
    this.#socket.send(message, { binary });
  }

  /** @returns {Promise<Answer>} */
  call(method, params) {
    const id = this.#nextId++;
    return this.exchange(id, JSON.stringify({ id, method, params }));
  }

  /**
   * Sends a request and waits for the answer with its id.
   * @param {number} id @param {string | Buffer} text @returns {Promise<Answer>}
   */
  exchange(id, text) {
    const answer = new Promise((resolve) => this.#pending.set(id, resolve));
    if (this.#socket.readyState === WebSocket.OPEN) this.send(text);
    else this.#settle(id, { kind: 'closed', text: 'not sent' });
    return within(ANSWER_TIMEOUT_MS, `an answer to ${String(text).slice(0, KEPT_BYTES)}`, answer);
  }

  /** Resolves when the server has handled everything that was sent before. */
  async settled() {
    await this.call('environment/status', {});
  }

  async close() {
    this.#socket.close();
    await within(ANSWER_TIMEOUT_MS, 'the close frame', this.#closed);
  }

  /** @param {Buffer} data */
  #receive(data) {
    const head = data.toString('latin1', 0, KEPT_BYTES);
    const result = /^\{"id":(\d+),"result"/.exec(head);
    if (result !== null) {
      this.#settle(Number(result[1]), { kind: 'result', text: head });
    } else if (head.startsWith('{"error"')) {
      const tail = data.toString('latin1', Math.max(0, data.length - KEPT_BYTES));
      const id = Number(/"id":(-?\d+)\}$/.exec(tail)?.[1]);
      // A message that cannot be read is refused with the id -1.
      const [oldest] = this.#pending.keys();
      this.#settle(id === -1 ? oldest : id, { kind: 'error', text: head });
    }
  }

  #settle(id, answer) {
    this.#pending.get(id)?.(answer);
    this.#pending.delete(id);
  }
}
