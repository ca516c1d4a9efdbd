import assert from 'node:assert/strict';
import { connectWebSocket } from '../../dist/transport/websocket.js';

const ANSWER_TIMEOUT_MS = 30_000;
const RETRY_MS = 20;

/** The connection was cut while an answer was awaited; it is asked for again after the resume. */
class Dropped extends Error {}

/**
 * One client that is cut off again and again and comes back to its session. Some have a program that repeats what it is told; not one
 * byte of that may be lost or come twice.
 */
export class Member {
  #url;
  #transport = null;
  #sessionId = null;
  /** Answers that the present connection owes. */
  #pending = new Map();
  /** Resolves when requests can be made. */
  #ready = Promise.resolve();
  #nextId = 1;
  #nextWrite = 1;
  #processes = 0;
  /** What the program was told and has said, and the number of its last event. */
  #told = '';
  #heard = '';
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
        for (const { reject } of pending.values()) reject(new Dropped('the connection was cut'));
      },
    });
    const params = { clientName: 'soak', resumeSessionId: this.#sessionId };
    const { sessionId } = await this.#ask('initialize', params);
    assert.ok(this.#sessionId === null || this.#sessionId === sessionId);
    this.#sessionId = sessionId;
    transport.send('{"method":"initialized","params":{}}');
  }

  /** Cuts the connection, at some moment of an exchange, and comes back. */
  async dropAndResume() {
    const unanswered = this.#running ? this.tell('cut off\n') : this.ping();
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
        // The server may not have noticed yet that the old connection is gone.
        if (error.code !== -32010) throw error;
        this.#transport.drop();
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  async ping() {
    assert.deepEqual(await this.#askAgain('environment/status', {}), { status: 'ready' });
  }

  async startProgram() {
    this.#told = '';
    this.#heard = '';
    this.#lastSeq = 0;
    const program = { argv: ['/bin/cat'], cwd: 'file:///', env: {}, tty: false, pipeStdin: true };
    await this.#ask('process/start', { processId: this.#newProcess(), ...program });
    this.#running = true;
  }

  /** Writes a line; a retry carries the same id and is not written twice. */
  async tell(line) {
    this.#told += line;
    const chunk = Buffer.from(line).toString('base64');
    const writeId = String(this.#nextWrite++);
    const { status } = await this.#askAgain('process/write', { processId: this.#process, chunk, writeId });
    assert.equal(status, 'accepted');
  }

  /** Waits until the program has repeated everything. */
  async echoed() {
    const complete = new Promise((resolve) => {
      this.#wake = () => this.#heard.length >= this.#told.length && resolve();
    });
    this.#wake();
    await within(complete, 'the echo');
    assert.equal(this.#heard, this.#told);
  }

  async endProgram() {
    await this.echoed();
    this.#running = false;
    await this.#ask('process/terminate', { processId: this.#process });
  }

  get running() {
    return this.#running;
  }

  leave() {
    this.#transport.close({ code: 1000, reason: 'done' });
  }

  get #process() {
    return `p${this.#processes}`;
  }

  #newProcess() {
    this.#processes++;
    return this.#process;
  }

  /** What was said while nobody listened is read; what arrives besides is put in its place. */
  async #catchUp() {
    const { chunks } = await this.#ask('process/read', { processId: this.#process, afterSeq: this.#lastSeq });
    for (const { seq, chunk } of chunks) this.#output(seq, chunk);
  }

  async #askAgain(method, params) {
    for (;;) {
      try {
        return await this.#ask(method, params);
      } catch (error) {
        if (!(error instanceof Dropped)) throw error;
        await this.#ready;
      }
    }
  }

  #ask(method, params) {
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

  /** After a resume an event may overtake the answer with those before it; the answer then brings it again. */
  #output(seq, chunk) {
    if (seq !== this.#lastSeq + 1) return;
    this.#lastSeq = seq;
    this.#heard += Buffer.from(chunk, 'base64').toString();
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
