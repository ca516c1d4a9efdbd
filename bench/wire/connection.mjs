import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { encodeFrame, FrameReader, Opcode } from './frames.mjs';
import { readMessage } from './notifications.mjs';
import { TrackedProcess } from './tracked-process.mjs';

const READ_BUFFER_BYTES = 512 * 1024;
const CONNECT_TIMEOUT_MS = 10_000;

/** All connections of this process read into one buffer: what is in it is used up before the next read. */
const READ_BUFFER = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES);

/**
 * A client connection that costs as little as possible: the measuring must not be what is measured. It speaks websocket over a
 * plain socket, answers pings, matches answers to requests and keeps account of every process.
 */
export class Connection {
  processes = new Map();
  #socket;
  #reader = new FrameReader((opcode, bytes, start, end) => this.#message(opcode, bytes, start, end));
  #pending = new Map();
  #nextId = 1;
  #outgoing = [];
  #holding = 0;
  #upgraded = null;
  #handshakeText = '';
  #ended = null;
  #onAnswer = (head, bytes, start, end, parsed) => this.#answer(head, bytes, start, end, parsed);

  /** Connects and upgrades. @param {string} url */
  static async open(url) {
    const connection = new Connection();
    await connection.#connect(new URL(url));
    return connection;
  }

  /** Connects, initializes, and is ready for every method. @param {string} url */
  static async ready(url) {
    const connection = await Connection.open(url);
    await connection.initialize();
    return connection;
  }

  /** The result of `initialize`, with `initialized` sent behind it. */
  async initialize() {
    const result = await this.call('initialize', { clientName: 'bench' });
    if (typeof result.sessionId !== 'string') throw new Error('initialize gave no session');
    this.#send('{"method":"initialized","params":{}}');
    return result;
  }

  get frames() {
    return this.#reader.frames;
  }

  /**
   * Asks and hands over the answer; the text is the whole message.
   * @param {string} method
   * @param {unknown} params
   * @param {(error: Error | null, text: string) => void} done
   */
  ask(method, params, done) {
    const id = this.#nextId++;
    this.#pending.set(id, done);
    const tail = params === undefined ? '}' : `,"params":${JSON.stringify(params)}}`;
    this.#send(`{"id":${id},"method":"${method}"${tail}`);
  }

  /**
   * Asks and resolves with the result.
   * @param {string} method
   * @param {unknown} [params]
   * @returns {Promise<any>}
   */
  call(method, params) {
    return new Promise((resolve, reject) => {
      this.ask(method, params, (error, text) => (error ? reject(error) : resolve(JSON.parse(text).result)));
    });
  }

  /**
   * Starts a program; resolves when the start is answered. Its events are tracked from the first one on.
   * @param {string} id
   * @param {string[]} argv
   * @param {{ tty?: boolean, pipeStdin?: boolean, digest?: boolean }} [options]
   */
  async start(id, argv, { tty = false, pipeStdin = false, digest = false } = {}) {
    const tracked = new TrackedProcess(id, { digest });
    this.processes.set(id, tracked);
    await this.call('process/start', {
      processId: id,
      argv,
      cwd: 'file:///',
      env: { PATH: process.env.PATH },
      tty,
      pipeStdin,
    });
    return tracked;
  }

  /** Everything sent while `work` runs leaves in one write. @param {() => void} work */
  batch(work) {
    this.#holding++;
    try {
      work();
    } finally {
      this.#holding--;
      this.#flush();
    }
  }

  /** Stops reading, as a client does that hangs. */
  pause() {
    this.#socket.pause();
  }

  resume() {
    this.#socket.resume();
  }

  close() {
    this.#socket.destroy();
  }

  #connect({ hostname, port }) {
    const key = randomBytes(16).toString('base64');
    const request =
      `GET / HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`;
    return new Promise((resolve, reject) => {
      this.#upgraded = resolve;
      this.#socket = connect({
        host: hostname.replace(/^\[|\]$/g, ''),
        port: Number(port),
        noDelay: true,
        onread: { buffer: READ_BUFFER, callback: (size) => this.#read(size) },
      });
      this.#socket.setTimeout(CONNECT_TIMEOUT_MS, () => reject(new Error('no answer to the upgrade')));
      this.#socket.on('error', (error) => this.#end(error, reject));
      this.#socket.on('close', () => this.#end(new Error('the server closed the connection'), reject));
      this.#socket.write(request);
    });
  }

  #read(size) {
    const from = this.#upgraded === null ? 0 : this.#readUpgrade(size);
    this.#holding++;
    this.#reader.feed(READ_BUFFER, from, size);
    this.#holding--;
    this.#flush();
    return true;
  }

  /** Consumes the HTTP answer; returns where the frames begin. */
  #readUpgrade(size) {
    const before = this.#handshakeText.length;
    this.#handshakeText += READ_BUFFER.toString('latin1', 0, size);
    const end = this.#handshakeText.indexOf('\r\n\r\n');
    if (end < 0) return size;
    if (!this.#handshakeText.startsWith('HTTP/1.1 101')) {
      this.#socket.destroy(new Error(this.#handshakeText.split('\r\n')[0]));
      return size;
    }
    this.#socket.setTimeout(0);
    this.#upgraded();
    this.#upgraded = null;
    return end + 4 - before;
  }

  #message(opcode, bytes, start, end) {
    if (opcode === Opcode.text) {
      readMessage(bytes, start, end, this.processes, this.#onAnswer);
    } else if (opcode === Opcode.ping) {
      this.#write(encodeFrame(Opcode.pong, bytes.subarray(start, end)));
    } else if (opcode === Opcode.close) {
      this.#socket.destroy();
    }
  }

  #answer(head, bytes, start, end, parsed) {
    const id = parsed?.id ?? Number.parseInt(head.slice(6, 24), 10);
    const done = this.#pending.get(id);
    if (done === undefined) return;
    this.#pending.delete(id);
    const error = parsed?.error;
    if (error !== undefined) done(new Error(`${error.code}: ${error.message}`), '');
    else done(null, bytes === null || end - start <= head.length ? head : bytes.utf8Slice(start, end));
  }

  #send(text) {
    this.#write(encodeFrame(Opcode.text, text));
  }

  #write(frame) {
    if (this.#holding > 0) this.#outgoing.push(frame);
    else this.#socket.write(frame);
  }

  #flush() {
    if (this.#holding > 0 || this.#outgoing.length === 0) return;
    const frames = this.#outgoing;
    this.#outgoing = [];
    this.#socket.write(frames.length === 1 ? frames[0] : Buffer.concat(frames));
  }

  #end(error, refuse) {
    if (this.#ended !== null) return;
    this.#ended = error;
    refuse(error);
    for (const done of this.#pending.values()) done(error, '');
    for (const tracked of this.processes.values()) tracked.fail(error);
    this.#pending.clear();
  }
}
