// One conversation with a server, over a websocket or over stdio, with everything that was received kept for inspection.
import { createInterface } from 'node:readline';
import { WebSocket } from 'ws';
import { isCanonicalBase64, mismatch } from './match.mjs';

const OPEN_TIMEOUT_MS = 10_000;

/** An expectation that was not met. `expected` and `actual` are JSON values for the report. */
export class Failure extends Error {
  constructor(message, expected, actual) {
    super(message);
    this.expected = expected;
    this.actual = actual;
  }
}

/** Throws Failure if a value does not match. `what` names the value. */
export function check(pattern, actual, what) {
  const found = mismatch(pattern, actual);
  if (!found) return;
  const where = found.path === '' ? what : `${what}, at ${found.path}`;
  throw new Failure(where, found.expected, found.actual);
}

class Connection {
  /** Every message in order of arrival: `{text, message, taken}`. */
  entries = [];
  /** Events per process id. */
  processes = new Map();
  /** Ids of processes started here, for cleaning up. */
  started = new Set();
  /** Breaches of rules that hold in every case. */
  violations = [];
  /** `{code, reason}` once the connection has ended. */
  end = null;
  pongs = [];
  /** Whether `initialize` has asked for binary messages. */
  takesBinary = false;
  binaryMessages = 0;
  #responses = new Map();
  #waiters = new Set();

  constructor(name) {
    this.name = name;
  }

  sendMessage(message) {
    const { method, params } = message;
    if (method === 'initialize') this.takesBinary = params?.capabilities?.binaryMessages === true;
    if (method === 'process/start' || method === 'command/exec') this.started.add(params?.processId);
    this.sendText(JSON.stringify(message));
  }

  /** Sends the messages so that they travel in one packet if they are small. */
  sendTogether(messages) {
    const { stream } = this;
    stream.cork();
    for (const message of messages) this.sendMessage(message);
    stream.uncork();
  }

  /** Waits until `check` returns something; fails at the deadline, or when the connection ends first. */
  until(check, withinMs, what) {
    const found = check();
    if (found !== undefined) return Promise.resolve(found);
    return new Promise((resolve, reject) => {
      const finish = (settle, value) => {
        clearTimeout(timer);
        this.#waiters.delete(attempt);
        settle(value);
      };
      const attempt = () => {
        const value = check();
        if (value !== undefined) finish(resolve, value);
        else if (this.end) finish(reject, new Failure(`${this.name} ended before ${what}`, what, this.end));
      };
      const timer = setTimeout(() => {
        finish(reject, new Failure(`no ${what} within ${withinMs} ms`, what, this.#recent()));
      }, withinMs);
      this.#waiters.add(attempt);
      attempt();
    });
  }

  /** The oldest response with this id that no step has taken yet. */
  async response(id, withinMs) {
    const key = JSON.stringify(id);
    const entry = await this.until(
      () => this.#responses.get(key)?.shift(),
      withinMs,
      `response to id ${key}`,
    );
    entry.taken = true;
    return entry;
  }

  /** The oldest message that is no notification and that no step has taken yet. */
  async nextReply(withinMs) {
    const entry = await this.until(() => this.unclaimed()[0], withinMs, 'message');
    entry.taken = true;
    const queue = this.#responses.get(JSON.stringify(entry.message.id));
    queue?.splice(queue.indexOf(entry), 1);
    return entry;
  }

  /** The oldest untaken notification of this method about this process or http request. */
  async notification(method, subject, withinMs) {
    const isWanted = ({ taken, message: { method: name, params } }) =>
      !taken &&
      name === method &&
      (subject === undefined
        ? (params?.processId ?? params?.requestId ?? params?.streamId)
        : (params?.processId ?? params?.requestId ?? params?.streamId ?? params?.watchId)) === subject;
    const what = `${method} of ${JSON.stringify(subject)}`;
    const entry = await this.until(() => this.entries.find(isWanted), withinMs, what);
    entry.taken = true;
    return entry;
  }

  /** Replies that no step has asked for. */
  unclaimed() {
    return this.entries.filter(({ taken, message }) => !taken && message.method === undefined);
  }

  process(processId) {
    let log = this.processes.get(processId);
    if (!log) {
      log = new ProcessLog();
      this.processes.set(processId, log);
    }
    return log;
  }

  receive(data, isBinary) {
    if (isBinary && !this.takesBinary) this.violations.push('the server sent a binary frame');
    const text = isBinary ? this.#asText(data) : data;
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      this.violations.push(`the server sent what is not JSON: ${text.slice(0, 200)}`);
      return;
    }
    if ('jsonrpc' in message) this.violations.push('the server sent a jsonrpc member');
    const entry = { text, message, taken: false };
    this.entries.push(entry);
    if (message.method === undefined) {
      const key = JSON.stringify(message.id);
      this.#responses.set(key, [...(this.#responses.get(key) ?? []), entry]);
    } else if (typeof message.params?.processId === 'string') {
      const problem = this.process(message.params.processId).add(message);
      if (problem) this.violations.push(`${message.params.processId}: ${problem}`);
    }
    this.wake();
  }

  /** A binary message as the text that it stands for. */
  #asText(data) {
    this.binaryMessages += 1;
    const end = 4 + data.readUInt32BE(0);
    const text = data.toString('utf8', 4, end);
    const members = text.match(/"(?:chunk|dataBase64|bodyBase64|deltaBase64)":""/g) ?? [];
    if (members.length !== 1)
      this.violations.push(`the server sent a binary message without one place for its bytes`);
    return text.replace(/(?<=:")(?=")/, data.toString('base64', end));
  }

  wake() {
    for (const attempt of [...this.#waiters]) attempt();
  }

  finish(code, reason) {
    if (this.end) return;
    this.end = { code, reason };
    this.wake();
  }

  #recent() {
    return this.entries.slice(-3).map(({ text }) => (text.length > 300 ? `${text.slice(0, 300)}…` : text));
  }
}

/** What was notified about one process. Numbered by seq; the legacy dialect, which has none, by arrival. */
class ProcessLog {
  events = new Map();
  /** Seq of the last event, once the process is known to be closed. */
  lastSeq = null;

  /** Returns what is wrong with the event, if anything. */
  add({ method, params }) {
    const isLegacy = method.startsWith('command/exec/');
    const seq = isLegacy ? this.events.size + 1 : params.seq;
    const kind = { output: 'o', outputDelta: 'o', exited: 'e', closed: 'c' }[method.split('/').pop()];
    if (!kind) return undefined;
    if (!Number.isInteger(seq) || seq < 1) return `${method} has seq ${seq}`;
    if (this.events.has(seq)) return `seq ${seq} was used twice`;
    if (kind === 'o' && !isCanonicalBase64(params.chunk)) return `chunk ${seq} is not base64`;
    const bytes = kind === 'o' ? Buffer.from(params.chunk, 'base64') : null;
    const { stream, exitCode, sandboxDenied } = params;
    this.events.set(seq, { seq, kind, stream, bytes, exitCode, sandboxDenied });
    if (kind === 'c' || (isLegacy && kind === 'e')) this.lastSeq = seq;
    return undefined;
  }

  /** Events from `first` on, up to the first gap. */
  contiguous(first = 1) {
    const list = [];
    for (let seq = first; this.events.has(seq); seq += 1) list.push(this.events.get(seq));
    return list;
  }

  /** All events in order once the closing one and everything before it have arrived. */
  complete(first = 1) {
    if (this.lastSeq === null) return undefined;
    const list = this.contiguous(first);
    return list.length === this.lastSeq - first + 1 ? list : undefined;
  }
}

/** Opens a websocket; `headers` are those of the upgrade request. */
export async function openWebSocket(name, url, headers = {}) {
  const connection = new WebSocketConnection(name, url, headers);
  await connection.opened;
  return connection;
}

class WebSocketConnection extends Connection {
  constructor(name, url, headers) {
    super(name);
    const options = { headers, perMessageDeflate: false, handshakeTimeout: OPEN_TIMEOUT_MS, maxPayload: 0 };
    this.socket = new WebSocket(url, options);
    this.socket.on('message', (data, isBinary) =>
      this.receive(isBinary ? data : data.toString('utf8'), isBinary),
    );
    this.socket.on('pong', (data) => {
      this.pongs.push(data.toString('utf8'));
      this.wake();
    });
    this.socket.on('ping', () => {
      this.pings = (this.pings ?? 0) + 1;
      this.wake();
    });
    this.socket.on('close', (code, reason) => this.finish(code, reason.toString('utf8')));
    this.opened = new Promise((resolve, reject) => {
      this.socket.once('open', resolve);
      // Once open, an error is followed by `close`, which is what the steps look at.
      this.socket.on('error', (error) =>
        reject(new Failure(`cannot connect: ${error.message}`, 'open', url)),
      );
    });
  }

  get stream() {
    return this.socket._socket;
  }

  sendText(text) {
    this.socket.send(text);
  }

  /** `options`: `binary`, `mask`; `fragments` splits the payload into that many frames. */
  sendBytes(bytes, { fragments = 1, ...options }) {
    const size = Math.ceil(bytes.length / fragments);
    for (let index = 0; index < fragments; index += 1) {
      const part = bytes.subarray(index * size, (index + 1) * size);
      this.socket.send(part, { ...options, fin: index === fragments - 1 }, () => {});
    }
  }

  sendPing(data) {
    this.socket.ping(data);
  }

  sendPong(data) {
    this.socket.pong(data);
  }

  pause() {
    this.socket.pause();
  }

  resume() {
    this.socket.resume();
  }

  close(code) {
    this.socket.close(code);
  }

  drop() {
    this.socket.terminate();
  }
}

/** Talks to a server started with `--listen stdio`. */
export class StdioConnection extends Connection {
  constructor(name, child) {
    super(name);
    this.child = child;
    child.stdin.on('error', () => {});
    createInterface({ input: child.stdout, crlfDelay: 0 })
      .on('line', (line) => this.receive(line, false))
      .on('close', () => this.finish(null, 'end of output'));
  }

  get stream() {
    return this.child.stdin;
  }

  sendText(text) {
    this.child.stdin.write(`${text}\n`);
  }

  sendBytes(bytes) {
    this.child.stdin.write(bytes);
  }

  close() {
    this.child.stdin.end();
  }

  drop() {
    this.child.stdin.end();
  }
}
