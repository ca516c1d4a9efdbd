// Floods a server until it is killed: node flood.mjs KIND URL CONNECTIONS. Prints a line when the server has answered
// on all connections.
import { connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { connect as connectTls } from 'node:tls';

const [kind, url, count] = process.argv.slice(2);
const { hostname, port } = new URL(url);
const CHUNK_BYTES = 64 * 1024;

const frame = (first, text = '') =>
  Buffer.concat([Buffer.of(first, 0x80 | text.length, 0, 0, 0, 0), Buffer.from(text)]);
const many = (bytes) => Buffer.concat(Array(Math.ceil(CHUNK_BYTES / bytes.length)).fill(bytes));
const upgrade =
  'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n';
const get = (path) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
const request = (id, method, params) => frame(0x81, JSON.stringify({ id, method, params }));
const invalid = (count) => Array(count).fill(frame(0x81, '{'));
const beginText = frame(0x01);
const initialize = Buffer.concat([
  request(1, 'initialize', { clientName: 'flood' }),
  frame(0x81, JSON.stringify({ method: 'initialized' })),
]);

/** What a connection sends once, and then without end. */
const FLOODS = {
  pings: [[upgrade], many(frame(0x89))],
  'pings after initialize': [[upgrade, initialize], many(frame(0x89, 'x'.repeat(8)))],
  pongs: [[upgrade], many(frame(0x8a))],
  'empty fragments': [[upgrade, beginText], many(frame(0x00))],
  'fragments of one byte': [[upgrade, initialize, beginText], many(frame(0x00, 'x'))],
  'requests before initialize': [[upgrade], many(request(2, 'environment/status', {}))],
  'requests after initialize': [[upgrade, initialize], many(request(2, 'environment/status', {}))],
  // A valid message now and then keeps the connection open.
  'invalid messages': [[upgrade, initialize], many(Buffer.concat([...invalid(1_000), request(2, 'x', {})]))],
  'invalid messages and new connections': [[upgrade, initialize], many(frame(0x81, '{'))],
  'health requests': [[], many(Buffer.from(get('/healthz')))],
  'unknown paths': [[], many(Buffer.from(get('/x')))],
  'refused upgrades': [[], many(Buffer.from(upgrade.replace('GET / ', 'GET /x ')))],
};

/** What a connection sends once before it is replaced by a new one. */
const CONNECTIONS = {
  'health connections': get('/healthz'),
  'upgrade connections': upgrade,
  'TLS connections': await clientHello(),
};

function open(ready) {
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.resume();
  // The server has answered or closed, so that it serves this connection.
  socket.once('data', ready);
  socket.once('close', ready);
  return socket;
}

function flood() {
  return new Promise((resolve) => {
    const socket = open(resolve);
    const [first, chunk] = FLOODS[kind];
    for (const bytes of first) socket.write(bytes);
    const fill = () => {
      while (socket.write(chunk));
    };
    socket.on('drain', fill);
    socket.on('close', () => setTimeout(() => flood(), 10));
    fill();
  });
}

/** Reconnects as fast as possible. */
function reconnect() {
  return new Promise((resolve) => {
    const socket = open(resolve);
    socket.write(CONNECTIONS[kind]);
    socket.once('data', () => socket.destroy());
    socket.on('close', () => setImmediate(reconnect));
  });
}

/** The first message of a TLS client. */
function clientHello() {
  const [out, incoming] = [new PassThrough(), new PassThrough()];
  const stream = new (class extends PassThrough {
    _transform(chunk, _encoding, done) {
      out.write(chunk);
      done();
    }
  })();
  incoming.destroy();
  const client = connectTls({ socket: stream, servername: 'localhost', rejectUnauthorized: false });
  client.on('error', () => {});
  return new Promise((resolve) => {
    out.once('data', (bytes) => {
      resolve(bytes);
      client.destroy();
    });
  });
}

await Promise.all(Array.from({ length: Number(count) }, () => (kind in FLOODS ? flood() : reconnect())));
console.log('flooding');
