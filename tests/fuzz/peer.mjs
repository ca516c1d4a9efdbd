import { connect } from 'node:net';

/** The first byte of a close frame. Server messages are ASCII, so it occurs nowhere else. */
const CLOSE_FRAME = '\x88';
const CONNECT_TIMEOUT_MS = 10_000;
const RESPONSE_TIMEOUT_MS = 10_000;

/** A raw client: it writes HTTP and websocket frames by hand and can violate both protocols. */
export class Peer {
  /** The last 64 KiB received. */
  received = '';
  socket;
  ended;

  constructor(socket) {
    this.socket = socket;
    this.ended = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      this.received = (this.received + chunk.toString('latin1')).slice(-64 * 1024);
    });
  }

  /** @param {string} url */
  static async connect(url) {
    const { hostname, port } = new URL(url);
    const peer = new Peer(connect(Number(port), hostname));
    const connected = new Promise((resolve) => peer.socket.once('connect', resolve));
    await within(CONNECT_TIMEOUT_MS, 'a connection', Promise.race([connected, peer.ended]));
    return peer;
  }

  /** Connects and upgrades to a websocket. @param {string} url */
  static async upgraded(url) {
    const peer = await Peer.connect(url);
    peer.socket.write(
      `GET / HTTP/1.1\r\nHost: ${new URL(url).host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
        'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
    );
    await peer.until('the upgrade', () => peer.received.includes('\r\n\r\n'));
    return peer;
  }

  send(text) {
    this.frame({ payload: Buffer.from(text) });
  }

  /** Sends any frame, valid or not: see {@link encodeFrame}. */
  frame(frame) {
    this.socket.write(encodeFrame(frame));
  }

  /** Resolves when the server has read everything that was sent, or the connection has closed. */
  async settled() {
    const mark = Math.random().toString(36).slice(2);
    this.frame({ opcode: 9, payload: Buffer.from(mark) });
    await this.until(
      'a pong or the end',
      () => this.received.includes(mark) || this.received.includes(CLOSE_FRAME),
    );
  }

  /** Waits until `reached` returns true or the connection closes. */
  async until(what, reached) {
    let wake = () => {};
    const waiting = new Promise((resolve) => {
      wake = () => reached() && resolve();
    });
    this.socket.on('data', wake);
    wake();
    await within(RESPONSE_TIMEOUT_MS, what, Promise.race([waiting, this.ended]));
    this.socket.off('data', wake);
  }
}

/** Rejects after the timeout: a server that hangs is a failure. */
export async function within(ms, what, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${ms} ms for ${what}`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The bytes of any frame, valid or not. `claimed` is the length in its header. */
export function encodeFrame({
  opcode = 1,
  fin = true,
  reserved = 0,
  masked = true,
  payload = Buffer.alloc(0),
  claimed = payload.length,
}) {
  const head = Buffer.alloc(14);
  head[0] = (fin ? 0x80 : 0) | (reserved << 4) | opcode;
  let length = 2;
  const flag = masked ? 0x80 : 0;
  if (claimed < 126) head[1] = flag | claimed;
  else if (claimed < 65_536) {
    head[1] = flag | 126;
    length = head.writeUInt16BE(claimed, 2);
  } else {
    head[1] = flag | 127;
    length = head.writeBigUInt64BE(BigInt(claimed), 2);
  }
  // A mask of zeros does not change the payload.
  return Buffer.concat([head.subarray(0, masked ? length + 4 : length), payload]);
}
