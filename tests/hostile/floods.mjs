// Floods: many connections, or one, that send as much as they can for a while.
import { connect } from 'node:net';
import { encodeFrame, Peer } from '../fuzz/peer.mjs';
import { HostileClient } from './client.mjs';
import { IDLE_PROGRAM } from './fixture.mjs';
import { base64 } from './texts.mjs';

const KIB = 1024;
const MIB = 1024 * 1024;
const TEXT = 1;
const CONTINUATION = 0;
const PING = 9;
const PONG = 10;
/** Written at a time. Small frames are repeated until they fill it. */
const WRITE_BYTES = 64 * KIB;
/** Begins with words of secrets over and over, and is none. */
const LIKE_SECRETS = 'eyJ-'.repeat(500) + 'token'.repeat(400);
const OPENING = [
  '{"id":0,"method":"initialize","params":{"clientName":"flood","detachedSessionTtlMs":0}}',
  '{"method":"initialized","params":{}}',
];

/**
 * @typedef {object} FloodContext
 * @property {string} url
 * @property {import('./fixture.mjs').Fixture} fixture
 * @property {() => boolean} goesOn False when the flood has to end.
 */

/** The floods, by name. Each ends soon after `goesOn` and closes its connections. @type {Record<string, (context: FloodContext) => Promise<void>>} */
export const FLOODS = {
  'empty pings': (context) => pourFrames(context, 3, { opcode: PING }),
  'empty pings before initialize': (context) => pourFrames(context, 50, { opcode: PING }, { opened: false }),
  'large pings': (context) => pourFrames(context, 3, { opcode: PING, payload: Buffer.alloc(125) }),
  pongs: (context) => pourFrames(context, 3, { opcode: PONG }),
  'fragments of one byte': (context) =>
    pourFrames(
      context,
      3,
      { opcode: CONTINUATION, fin: false, payload: Buffer.from(' ') },
      { first: { opcode: TEXT, fin: false, payload: Buffer.from(' ') } },
    ),
  'empty fragments': (context) =>
    pourFrames(context, 3, { opcode: CONTINUATION, fin: false }, { first: { opcode: TEXT, fin: false } }),
  'empty messages': (context) => pourFrames(context, 3, keptOpen({ opcode: TEXT })),
  'malformed messages': (context) => pourFrames(context, 3, keptOpen({ payload: Buffer.from('{') })),
  'the smallest requests': (context) =>
    pourFrames(context, 3, { payload: Buffer.from('{"id":1,"method":"environment/status"}') }),
  'requests before initialize': (context) =>
    pourFrames(
      context,
      20,
      { payload: Buffer.from('{"id":1,"method":"environment/status"}') },
      { opened: false },
    ),
  'refused requests': (context) => pourFrames(context, 3, { payload: Buffer.from('{"id":1,"method":"x"}') }),
  'requests for missing files': (context) =>
    pourFrames(context, 3, {
      payload: Buffer.from('{"id":1,"method":"fs/getMetadata","params":{"path":"file:///nowhere/x"}}'),
    }),
  'starts that are refused': (context) =>
    pourFrames(context, 3, {
      payload: Buffer.from('{"id":1,"method":"process/start","params":{"processId":"p","argv":[]}}'),
    }),
  'reads of unknown processes': (context) =>
    pourFrames(context, 3, {
      payload: Buffer.from('{"id":1,"method":"process/read","params":{"processId":"p"}}'),
    }),
  'large requests that are refused': (context) =>
    pourFrames(context, 4, {
      payload: Buffer.from(`{"id":1,"method":"x","params":"${'x'.repeat(4 * MIB - 60)}"}`),
    }),
  'messages without an end': (context) =>
    pourFrames(
      context,
      40,
      { opcode: CONTINUATION, fin: false, payload: Buffer.alloc(WRITE_BYTES, ' ') },
      { opened: false, first: { opcode: TEXT, fin: false }, bytes: 60 * MIB },
    ),
  'writes of large files': writeLargeFiles,
  'answers that are not read': leaveAnswersUnread,
  'cancelled requests': cancelRequests,
  'programs that print': (context) => runPrintingPrograms(context, 4, {}),
  'recorded programs that print what looks like secrets': (context) =>
    runPrintingPrograms(context, 10, { argv: ['/usr/bin/yes', LIKE_SECRETS], record: true }),
  'programs that end immediately': startPrograms,
  'connections that close': (context) => connectAndClose(context, () => {}),
  'connections that upgrade': (context) =>
    connectAndClose(context, (peer) => peer.socket.write(upgrade(context.url))),
  'connections that open sessions': (context) =>
    connectAndClose(context, (peer) => {
      peer.socket.write(upgrade(context.url));
      for (const text of OPENING) peer.send(text);
    }),
  'HTTP requests': (context) =>
    pourText(context, 8, `GET /healthz HTTP/1.1\r\nHost: ${host(context.url)}\r\n\r\n`),
  'requests for metrics': (context) =>
    pourText(context, 8, `GET /metrics HTTP/1.1\r\nHost: ${host(context.url)}\r\n\r\n`),
  'HTTP requests that are refused': (context) =>
    pourText(context, 8, `GET /${'x'.repeat(1_000)} HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n`),
};

function host(url) {
  return new URL(url).host;
}

function upgrade(url) {
  return (
    `GET / HTTP/1.1\r\nHost: ${host(url)}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n'
  );
}

/** Malformed frames, with a valid one before the server closes the connection for them. */
function keptOpen(malformed) {
  return [...Array(1_000).fill(malformed), { payload: Buffer.from('{"id":1,"method":"x"}') }];
}

/** Sends a frame, or a list of frames, over and over on several websockets. `bytes` limits what each of them sends. */
async function pourFrames({ url, goesOn }, connections, frames, { opened = true, first, bytes } = {}) {
  const repeated = filled(Buffer.concat([frames].flat().map(encodeFrame)));
  await together(connections, async () => {
    const peer = await Peer.upgraded(url);
    if (opened) for (const text of OPENING) peer.send(text);
    if (first !== undefined) peer.frame(first);
    await pour(peer.socket, repeated, goesOn, bytes);
    peer.socket.destroy();
    await peer.ended;
  });
}

/** Sends the text of a request over and over on several connections. */
async function pourText({ url, goesOn }, connections, text) {
  const repeated = filled(Buffer.from(text));
  await together(connections, async () => {
    while (goesOn()) {
      const peer = await Peer.connect(url);
      await pour(peer.socket, repeated, goesOn);
      peer.socket.destroy();
      await peer.ended;
    }
  });
}

/** Writes until the flood ends or the server closes the connection; waits while the server does not read. */
async function pour(socket, chunk, goesOn, bytes = Number.POSITIVE_INFINITY) {
  let written = 0;
  while (goesOn() && !socket.destroyed) {
    if (written < bytes && socket.write(chunk)) {
      written += chunk.length;
      await new Promise((resolve) => setImmediate(resolve));
    } else {
      await new Promise((resolve) => {
        const done = () => {
          socket.off('drain', done).off('close', done);
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(done, 20);
        socket.on('drain', done).on('close', done);
      });
    }
  }
}

function filled(bytes) {
  return Buffer.concat(Array(Math.max(1, Math.floor(WRITE_BYTES / bytes.length))).fill(bytes));
}

async function together(count, work) {
  await Promise.all(Array.from({ length: count }, (_, index) => work(index)));
}

/** Opens connections, does something and closes them abruptly. */
async function connectAndClose({ url, goesOn }, act) {
  const { hostname, port } = new URL(url);
  await together(20, async () => {
    while (goesOn()) {
      const peer = new Peer(connect(Number(port), hostname));
      await new Promise((resolve) => peer.socket.once('connect', resolve).once('close', resolve));
      act(peer);
      await new Promise((resolve) => setImmediate(resolve));
      peer.socket.destroy();
      await peer.ended;
    }
  });
}

async function writeLargeFiles({ url, fixture, goesOn }) {
  const dataBase64 = base64(32 * MIB);
  await together(3, async (index) => {
    const client = await HostileClient.open(url);
    while (goesOn()) {
      await client.call('fs/writeFile', { path: fixture.uri('scratch', `flood-${index}`), dataBase64 });
    }
    await client.close();
  });
}

async function leaveAnswersUnread({ url, fixture, goesOn }) {
  const request = { id: 1, method: 'fs/readDirectory', params: { path: fixture.uri('wide') } };
  const chunk = encodeFrame({ payload: Buffer.from(JSON.stringify(request)) });
  await together(4, async () => {
    const peer = await Peer.upgraded(url);
    for (const text of OPENING) peer.send(text);
    peer.socket.pause();
    await pour(peer.socket, chunk, goesOn, 200 * chunk.length);
    peer.socket.destroy();
    await peer.ended;
  });
}

async function cancelRequests({ url, fixture, goesOn }) {
  await together(3, async () => {
    const client = await HostileClient.open(url);
    for (let count = 0; goesOn(); count++) {
      const requestId = String(count);
      const asked = client.call('http/request', { requestId, method: 'GET', url: `${fixture.web}/never` });
      await client.call('http/cancel', { requestId });
      await asked;
    }
    await client.close();
  });
}

/** Runs programs with and without a terminal, of each kind as many. */
async function runPrintingPrograms({ url, goesOn }, count, { argv = ['/usr/bin/yes'], ...options }) {
  const client = await HostileClient.open(url);
  await together(count, async (index) => {
    for (const tty of [false, true]) {
      const params = { ...program(`${tty}-${index}`, argv), ...options, tty };
      const { kind, text } = await client.call('process/start', params);
      if (kind !== 'result') throw new Error(`the program was not started: ${text}`);
    }
  });
  while (goesOn()) await new Promise((resolve) => setTimeout(resolve, 20));
  await client.close();
}

async function startPrograms({ url, goesOn }) {
  await together(4, async () => {
    const client = await HostileClient.open(url);
    for (let count = 0; goesOn(); count++) {
      await client.call('process/start', program(`true-${count}`, ['/bin/true']));
    }
    await client.call('process/start', program('idle', IDLE_PROGRAM));
    await client.close();
  });
}

function program(processId, argv) {
  return { processId, argv, cwd: 'file:///', env: {}, tty: false };
}
