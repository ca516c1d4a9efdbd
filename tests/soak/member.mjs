import assert from 'node:assert/strict';
import { connectWebSocket } from '../../dist/transport/websocket.js';

const ANSWER_TIMEOUT_MS = 30_000;
const RETRY_MS = 20;

/** The connection was cut while a response was pending. The request is sent again after the resume. */
class ConnectionCut extends Error {}

/**
 * A client whose connection is cut repeatedly and that resumes its session each time. Some run a program that echoes its input; no byte
 * of the echo may be lost or repeated.
 */
export class Member {
  #url;
  #transport = null;
  #sessionId = null;
  /** Pending responses of the current connection. */
  #pending = new Map();
  /** Resolves when requests can be made. */
  #ready = Promise.resolve();
  #nextId = 1;
  #nextWrite = 1;
  #processes = 0;
  /** What was written to the program, what it has echoed, and the sequence number of its last event. */
  #written = '';
  #echoed = '';
  #lastSeq = 0;
  #running = false;
  #wake = () => {};

  constructor(url) {
    this.#url = url;
  }

  async connect() {
    const transport = await connectWebSocket(this.#url);
    const pending = new Map();
    this.#transport = transport;
    this.#pending = pending;
    transport.open({
      message: (text) => this.#receive(JSON.parse(text)),
      undecodable: () => {},
      drained: () => {},
      ended: () => {},
      closed: () => {
        for (const { reject } of pending.values()) reject(new ConnectionCut('the connection was cut'));
      },
    });
    const params = { clientName: 'soak', resumeSessionId: this.#sessionId };
    const { sessionId } = await this.#request('initialize', params);
    assert.ok(this.#sessionId === null || this.#sessionId === sessionId);
    this.#sessionId = sessionId;
    transport.send('{"method":"initialized","params":{}}');
  }

  /** Cuts the connection at a random moment of an exchange, and resumes. */
  async dropAndResume() {
    const unanswered = this.#running ? this.writeLine('cut off\n') : this.ping();
    let isReady = () => {};
    this.#ready = new Promise((resolve) => {
      isReady = resolve;
    });
    this.#transport.drop();
    await this.#resume();
    isReady();
    if (this.#running) await this.#catchUp();
    await unanswered;
  }

  async #resume() {
    for (;;) {
      try {
        await this.connect();
        return;
      } catch (error) {
        // The server may not have noticed yet that the old connection is closed.
        if (error.code !== -32010) throw error;
        this.#transport.drop();
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  async ping() {
    assert.deepEqual(await this.#requestWithRetry('environment/status', {}), { status: 'ready' });
  }

  async startProgram() {
    this.#written = '';
    this.#echoed = '';
    this.#lastSeq = 0;
    const program = { argv: ['/bin/cat'], cwd: 'file:///', env: {}, tty: false, pipeStdin: true };
    await this.#request('process/start', { processId: this.#newProcess(), ...program });
    this.#running = true;
  }

  /** Writes a line. A retry has the same writeId, so the server does not write it twice. */
  async writeLine(line) {
    this.#written += line;
    const chunk = Buffer.from(line).toString('base64');
    const writeId = String(this.#nextWrite++);
    const { status } = await this.#requestWithRetry('process/write', {
      processId: this.#process,
      chunk,
      writeId,
    });
    assert.equal(status, 'accepted');
  }

  /** Waits until the program has echoed everything. */
  async echoed() {
    const complete = new Promise((resolve) => {
      this.#wake = () => this.#echoed.length >= this.#written.length && resolve();
    });
    this.#wake();
    try {
      await within(complete, 'the echo');
    } catch (error) {
      throw new Error(`${error.message}; ${await this.#missing()}`);
    }
    assert.equal(this.#echoed, this.#written);
  }

  /** What the client and the server know about the missing part of an echo. */
  async #missing() {
    const { chunks, nextSeq } = await this.#request('process/read', {
      processId: this.#process,
      afterSeq: this.#lastSeq,
    });
    const retained = chunks.map(({ seq, chunk }) => `${seq}: ${chunk.length}`).join(', ');
    return `received through ${this.#lastSeq}, ${this.#echoed.length} of ${this.#written.length} characters; the server is at ${nextSeq} and has ${retained || 'nothing more'}`;
  }

  async endProgram() {
    await this.echoed();
    this.#running = false;
    await this.#request('process/terminate', { processId: this.#process });
  }

  get running() {
    return this.#running;
  }

  disconnect() {
    this.#transport.close({ code: 1000, reason: 'done' });
  }

  get #process() {
    return `p${this.#processes}`;
  }

  #newProcess() {
    this.#processes++;
    return this.#process;
  }

  /** Reads the output of the time without a connection. Events that arrive meanwhile are put in order. */
  async #catchUp() {
    const { chunks } = await this.#request('process/read', {
      processId: this.#process,
      afterSeq: this.#lastSeq,
    });
    for (const { seq, chunk } of chunks) this.#output(seq, chunk);
  }

  async #requestWithRetry(method, params) {
    for (;;) {
      try {
        return await this.#request(method, params);
      } catch (error) {
        if (!(error instanceof ConnectionCut)) throw error;
        await this.#ready;
      }
    }
  }

  #request(method, params) {
    const id = this.#nextId++;
    const answer = new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
    this.#transport.send(JSON.stringify({ id, method, params }));
    return within(answer, method);
  }

  #receive(message) {
    if (message.method === 'process/output') {
      const { processId, seq, chunk } = message.params;
      if (processId === this.#process) this.#output(seq, chunk);
      return;
    }
    const call = this.#pending.get(message.id);
    if (call === undefined) return;
    this.#pending.delete(message.id);
    if (message.error === undefined) call.resolve(message.result);
    else call.reject(Object.assign(new Error(message.error.message), { code: message.error.code }));
  }

  /** After a resume an event may arrive before the response with the earlier ones; that response then includes it again. */
  #output(seq, chunk) {
    if (seq !== this.#lastSeq + 1) return;
    this.#lastSeq = seq;
    this.#echoed += Buffer.from(chunk, 'base64').toString();
    this.#wake();
  }
}

async function within(work, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`waited ${ANSWER_TIMEOUT_MS} ms for ${what}`)),
      ANSWER_TIMEOUT_MS,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
