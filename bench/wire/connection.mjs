import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { encodeFrame, FrameReader, Opcode } from './frames.mjs';
import { readMessage } from './notifications.mjs';
import { TrackedProcess } from './tracked-process.mjs';

const READ_BUFFER_BYTES = 512 * 1024;
const CONNECT_TIMEOUT_MS = 10_000;
const ACKNOWLEDGEMENT = encodeFrame(Opcode.pong, Buffer.alloc(0));
const ANSWER_BEGIN = /^\{"id":(\d+),/;

/** All connections of this process read into one buffer. Its content is consumed before the next read. */
const READ_BUFFER = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES);

/**
 * @typedef {object} AnswerSink Receives one response, from `"result"` on, and throws when it is wrong.
 * @property {(bytes: Buffer, start: number, end: number) => void} take The bytes are valid only during the call.
 * @property {() => void} end
 */

/**
 * A client connection with the least overhead, so that the benchmark does not measure its own client. It speaks websocket over a
 * plain socket, answers pings, matches responses to requests and tracks every process.
 */
export class Connection {
  processes = new Map();
  #socket;
  #reader = new FrameReader((opcode, bytes, start, end) => this.#message(opcode, bytes, start, end), {
    wants: (bytes, start, end) => this.#wantsPieces(bytes, start, end),
    take: (bytes, start, end, last) => this.#piece(bytes, start, end, last),
  });
  #pending = new Map();
  /** The sinks of responses that are not needed as text. */
  #sinks = new Map();
  /** The response that a sink is receiving. */
  #arriving = null;
  #nextId = 1;
  #outgoing = [];
  #holding = 0;
  #upgraded = null;
  #handshakeText = '';
  #ended = null;
  #acknowledging = false;
  #onAnswer = (head, bytes, start, end, parsed) => this.#answer(head, bytes, start, end, parsed);

  /**
   * Connects and upgrades. With `acknowledge` the client sends an unsolicited pong after every read, which carries the TCP
   * acknowledgement immediately. The protocol allows such pongs, and servers ignore them. Without it a server that uses Nagle's
   * algorithm waits up to 40 ms for the delayed acknowledgement before it sends the next small write.
   * @param {string} url
   * @param {{ acknowledge?: boolean }} [options]
   */
  static async open(url, { acknowledge = false } = {}) {
    const connection = new Connection();
    connection.#acknowledging = acknowledge;
    await connection.#connect(new URL(url));
    return connection;
  }

  /**
   * Connects and completes the handshake.
   * @param {string} url
   * @param {{ acknowledge?: boolean }} [options]
   */
  static async ready(url, options) {
    const connection = await Connection.open(url, options);
    await connection.initialize();
    return connection;
  }

  /** The result of `initialize`, after which `initialized` is sent. */
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
   * Sends a request and calls `done` with the response; the text is the whole message.
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
   * Sends a request and resolves with the result.
   * @param {string} method
   * @param {unknown} [params]
   * @returns {Promise<any>}
   */
  call(method, params) {
    return new Promise((resolve, reject) => this.ask(method, params, settle(resolve, reject)));
  }

  /**
   * Requests a large result. The response goes to `sink` as it arrives, without its id. Resolves when `sink` has all of it.
   * @param {string} method
   * @param {unknown} params
   * @param {AnswerSink} sink
   * @returns {Promise<void>}
   */
  receive(method, params, sink) {
    return new Promise((resolve, reject) => {
      this.#sinks.set(this.#nextId, sink);
      this.ask(method, params, (error) => (error ? reject(error) : resolve()));
    });
  }

  /**
   * Sends a large request and resolves with the result. The params are the text `head` followed by `tail`, which ends the message.
   * @param {string} method
   * @param {string} head
   * @param {import('./frames.mjs').MaskedTail} tail
   * @returns {Promise<any>}
   */
  upload(method, head, tail) {
    return new Promise((resolve, reject) => {
      const id = this.#nextId++;
      this.#pending.set(id, settle(resolve, reject));
      this.#socket.cork();
      this.#socket.write(tail.encodeStart(`{"id":${id},"method":"${method}","params":${head}`));
      this.#socket.write(tail.bytes);
      this.#socket.uncork();
    });
  }

  /**
   * Starts a program; resolves when the start is answered. Its events are tracked from the first one on.
   * @param {string} id
   * @param {string[]} argv
   * @param {{ tty?: boolean, pipeStdin?: boolean, digest?: boolean, [param: string]: unknown }} [options] The others go into the request.
   */
  async start(id, argv, { tty = false, pipeStdin = false, digest = false, ...params } = {}) {
    const tracked = new TrackedProcess(id, { digest });
    this.processes.set(id, tracked);
    await this.call('process/start', {
      processId: id,
      argv,
      cwd: 'file:///',
      env: { PATH: process.env.PATH },
      tty,
      pipeStdin,
      ...params,
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

  /** Stops reading, as a hanging client does. */
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
    if (this.#acknowledging && this.#upgraded === null) this.#write(ACKNOWLEDGEMENT);
    this.#holding--;
    this.#flush();
    return true;
  }

  /** Consumes the HTTP response; returns where the frames begin. */
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
    if (bytes !== null && this.#sinks.size > 0 && this.#wantsPieces(bytes, start, end)) {
      this.#piece(bytes, start, end, true);
      return;
    }
    const id = parsed?.id ?? Number.parseInt(head.slice(6, 24), 10);
    const error = parsed?.error;
    if (error !== undefined) this.#done(id, new Error(`${error.code}: ${error.message}`), '');
    else
      this.#done(id, null, bytes === null || end - start <= head.length ? head : bytes.utf8Slice(start, end));
  }

  /** Whether a message with this beginning is a response for a sink. */
  #wantsPieces(bytes, start, end) {
    if (this.#sinks.size === 0) return false;
    const [begin, id] = ANSWER_BEGIN.exec(bytes.latin1Slice(start, Math.min(end, start + 32))) ?? [];
    const sink = this.#sinks.get(Number(id));
    if (sink === undefined) return false;
    this.#arriving = { id: Number(id), sink, skip: begin.length, failure: null };
    return true;
  }

  #piece(bytes, start, end, last) {
    const answer = this.#arriving;
    try {
      answer.sink.take(bytes, start + answer.skip, end);
      if (last) answer.sink.end();
    } catch (error) {
      answer.failure ??= error;
    }
    answer.skip = 0;
    if (last) this.#done(answer.id, answer.failure, '');
  }

  #done(id, error, text) {
    const done = this.#pending.get(id);
    this.#pending.delete(id);
    this.#sinks.delete(id);
    done?.(error, text);
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
    this.#sinks.clear();
  }
}

/** Parses the text of a response whose result is needed. */
function settle(resolve, reject) {
  return (error, text) => {
    if (error !== null) return reject(error);
    const { result, error: refusal } = JSON.parse(text);
    if (refusal === undefined) resolve(result);
    else reject(new Error(`${refusal.code}: ${refusal.message}`));
  };
}
