// A web server for the cases about http requests: it answers as scripted, byte for byte, and keeps what it was sent.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { toBytes } from './payload.mjs';

const POLL_MS = 10;

/**
 * Listens on a free port of this machine. `routes` maps a path to its answer: `{status, headers: [[name, value]…], body}`, or
 * `{raw}` for bytes as they are. `close: true` ends the connection behind the answer.
 */
export class Upstream {
  /** Every request in order of arrival: `{path, head, body, taken, socket, gone}`. */
  requests = [];
  /** How many connections there have been. */
  connections = 0;
  #routes;
  #server = createServer((socket) => this.#serve(socket));
  #sockets = new Set();

  constructor(routes) {
    this.#routes = routes;
  }

  async listen() {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this.#server.address().port;
  }

  /** The oldest request for a path that `isWanted`; undefined when there is none in time. */
  async request(path, withinMs, isWanted = () => true) {
    const deadline = performance.now() + withinMs;
    for (;;) {
      const found = this.requests.find((request) => request.path === path && isWanted(request));
      if (found || performance.now() > deadline) return found;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  close() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #serve(socket) {
    this.#sockets.add(socket);
    this.connections += 1;
    const mine = [];
    let bytes = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#sockets.delete(socket);
      for (const request of mine) request.gone = true;
    });
    socket.on('data', (data) => {
      bytes = Buffer.concat([bytes, data]);
      for (let parsed = parseRequest(bytes); parsed; parsed = parseRequest(bytes)) {
        bytes = bytes.subarray(parsed.length);
        const request = { path: parsed.path, head: parsed.head, body: parsed.body, taken: false, socket };
        mine.push(request);
        this.requests.push(request);
        this.#answer(request);
      }
    });
  }

  #answer({ path, socket, head }) {
    const route = { ...(this.#routes[path] ?? { status: 404 }), bodiless: head.startsWith('HEAD ') };
    socket.write(route.raw === undefined ? response(route) : toBytes(route.raw));
    if (route.close) socket.end();
  }
}

function response({ status = 200, headers = [], body = '', bodiless }) {
  const bytes = toBytes(body);
  const named = headers.map(([name]) => name.toLowerCase());
  const framed = named.some((name) => ['content-length', 'transfer-encoding'].includes(name)) || status < 200;
  const lines = [...headers, ...(framed ? [] : [['content-length', String(bytes.length)]])];
  const head = [`HTTP/1.1 ${status} Scripted`, ...lines.map(([name, value]) => `${name}: ${value}`)];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bodiless ? Buffer.alloc(0) : bytes]);
}

/** The first request in the bytes, or undefined while it is not complete. */
function parseRequest(bytes) {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const head = bytes.subarray(0, headEnd).toString('utf8');
  const path = /^\S+ (?:http:\/\/[^/ ]+)?([^\s?]*)/.exec(head)?.[1] ?? '';
  const start = headEnd + 4;
  if (/^transfer-encoding: .*chunked/im.test(head)) {
    const end = bytes.indexOf('0\r\n\r\n', start);
    if (end < 0) return undefined;
    return { head, path, body: bytes.subarray(start, end + 5), length: end + 5 };
  }
  const size = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
  if (bytes.length < start + size) return undefined;
  return { head, path, body: bytes.subarray(start, start + size), length: start + size };
}
