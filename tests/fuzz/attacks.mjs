import { Peer } from './peer.mjs';
import { METHOD_NAMES, randomJson, randomParams } from './requests.mjs';

/**
 * @typedef {object} AttackContext What an attack works with.
 * @property {string} url
 * @property {import('./random.mjs').Random} random
 * @property {string} folder The attack's private folder.
 * @property {number} maxMessageBytes
 * @property {string[]} sessions Ids of sessions that attacks have opened.
 */

/** The attacks, by name. Each closes its connections. @type {Record<string, (context: AttackContext) => Promise<void>>} */
export const ATTACKS = {
  /** Bytes that are not HTTP, and HTTP that ends too early or never. */
  async http({ url, random }) {
    const peer = await Peer.connect(url);
    peer.socket.write(
      random.pick([
        random.bytes(random.int(1, 2000)),
        'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ',
        `GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ${'x'.repeat(random.int(1, 100_000))}\r\n\r\n`,
        `GET /${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`,
        'POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999\r\n\r\nbody',
        'POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n',
        'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n',
        'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
        Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
      ]),
    );
    const ending = random.int(0, 3);
    if (ending === 0) peer.socket.end();
    if (ending === 1) peer.socket.destroy();
    await peer.ended;
  },

  /** Invalid websocket frames, and incomplete valid ones. */
  async frames({ url, random }) {
    const peer = await Peer.upgraded(url);
    for (let count = random.int(1, 5); count > 0; count--) {
      peer.frame({
        opcode: random.int(0, 15),
        fin: random.chance(0.7),
        reserved: random.chance(0.2) ? random.int(1, 7) : 0,
        masked: random.chance(0.8),
        payload: random.bytes(random.int(0, 300)),
      });
    }
    if (random.chance(0.5)) peer.socket.write(random.bytes(random.int(1, 500)));
    await leave(peer, random);
  },

  /** Messages at and above the size limit: in one frame, in fragments, and with only the length sent. */
  async sizes({ url, random, maxMessageBytes }) {
    const peer = await Peer.upgraded(url);
    const size = maxMessageBytes + random.pick([-1, 0, 1, maxMessageBytes]);
    const kind = random.int(0, 3);
    if (kind === 0) peer.frame({ payload: Buffer.alloc(size, ' ') });
    if (kind === 1)
      peer.frame({
        claimed: random.pick([size, 2 ** 32, Number.MAX_SAFE_INTEGER]),
        payload: random.bytes(100),
      });
    if (kind >= 2) {
      const pieces = random.int(2, 40);
      for (let index = 0; index < pieces; index++) {
        const payload = Buffer.alloc(Math.floor(size / pieces), kind === 2 ? ' ' : '[');
        peer.frame({ opcode: index === 0 ? 1 : 0, fin: index === pieces - 1, payload });
      }
    }
    await leave(peer, random);
  },

  /** Valid frames whose text attacks the JSON parser. */
  async texts({ url, random }) {
    const peer = await Peer.upgraded(url);
    if (random.chance(0.7)) open(peer);
    for (let count = random.int(1, 8); count > 0; count--) {
      const text = hostileText(random);
      if (random.chance(0.1)) peer.frame({ payload: Buffer.concat([Buffer.from(text), random.bytes(3)]) });
      else peer.frame({ opcode: random.pick([1, 1, 2]), payload: Buffer.from(text) });
    }
    await leave(peer, random);
  },

  /** Binary messages, valid and invalid, of clients that have asked for them and of others. */
  async binary({ url, random, folder }) {
    const peer = await Peer.upgraded(url);
    open(peer, null, { binaryMessages: random.chance(0.9) });
    for (let count = random.int(1, 20); count > 0; count--) {
      const method = random.pick(METHOD_NAMES);
      const params = randomParams(random, method, folder);
      for (const name of ['chunk', 'dataBase64', 'bodyBase64']) if (name in Object(params)) params[name] = '';
      const text = random.chance(0.8) ? JSON.stringify({ id: count, method, params }) : hostileText(random);
      const length = Buffer.alloc(4);
      const claimed = Buffer.byteLength(text) + random.pick([0, 0, 0, 0, -1, 1, 1000, 2 ** 31]);
      length.writeUInt32BE(Math.max(0, claimed));
      const payload = Buffer.concat([length, Buffer.from(text), random.bytes(random.int(0, 3000))]);
      const cut = random.int(0, payload.length);
      if (random.chance(0.7)) peer.frame({ opcode: 2, payload });
      else {
        peer.frame({ opcode: 2, fin: false, payload: payload.subarray(0, cut) });
        peer.frame({ opcode: 0, payload: payload.subarray(cut) });
      }
    }
    await leave(peer, random);
  },

  /** Requests that match the schemas, or nearly so, in any order. */
  async methods({ url, random, folder, sessions }) {
    const peer = await Peer.upgraded(url);
    const resumed = random.chance(0.3) ? random.pick([...sessions, 'X']) : null;
    if (random.chance(0.95)) open(peer, resumed);
    for (let count = random.int(1, 40); count > 0; count--) {
      const method = random.pick(METHOD_NAMES);
      const id = random.chance(0.95) ? count : randomJson(random);
      peer.send(JSON.stringify({ id, method, params: randomParams(random, method, folder) }));
      if (random.chance(0.1)) await peer.settled();
    }
    await leave(peer, random);
    const [, opened] = /"sessionId":"([0-9a-f-]{36})"/.exec(peer.received) ?? [];
    if (opened !== undefined) sessions.push(opened);
    if (sessions.length > 20) sessions.shift();
  },
};

function open(peer, resumeSessionId = null, capabilities = {}) {
  const params = { clientName: 'fuzz', resumeSessionId, capabilities };
  peer.send(JSON.stringify({ id: 'open', method: 'initialize', params }));
  peer.send('{"method":"initialized","params":{}}');
}

/** Ends a connection in a random way. */
async function leave(peer, random) {
  if (random.chance(0.7)) await peer.settled();
  const ending = random.int(0, 4);
  if (ending === 0) peer.frame({ opcode: 8, payload: Buffer.from([3, 232]) });
  if (ending === 1) peer.socket.end();
  if (ending === 2) peer.socket.resetAndDestroy();
  if (ending === 3) {
    peer.frame({ claimed: 500, payload: Buffer.alloc(100) });
    await new Promise((resolve) => peer.socket.write('', resolve));
  }
  if (ending !== 0) peer.socket.destroy();
  await peer.ended;
}

/** None of these calls a method that changes anything. */
function hostileText(random) {
  const depth = random.int(1, 5000);
  const request = (params) => `{"id":1,"method":"process/list","params":${params}}`;
  return random.pick([
    () => '',
    () => random.bytes(random.int(1, 200)).toString('latin1'),
    () => '['.repeat(depth),
    () => request('['.repeat(depth) + ']'.repeat(depth)),
    () => request(`{"a":${'{"a":'.repeat(depth)}1${'}'.repeat(depth + 1)}`),
    () => request(`[${'1,'.repeat(depth)}1]`),
    () => request('{"a":1,"a":2}'),
    () => request('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'),
    () => request(`"${'\\u0000'.repeat(depth)}"`),
    () => request('"\\ud800"'),
    () => request(`1${'0'.repeat(depth)}`),
    () => request('1e99999'),
    () => request(`-${'9'.repeat(400)}.${'9'.repeat(400)}`),
    () => `{"id":${JSON.stringify(randomJson(random))},"method":"environment/info"}`,
    () => `{"id":9007199254740993,"method":${JSON.stringify(random.text())}}`,
    () => `{"id":1,"result":${JSON.stringify(randomJson(random))}}`,
    () => `{"method":${JSON.stringify(random.text())}}`,
    () => `{"id":1,"method":"environment/info","trace":${JSON.stringify(randomJson(random))}}`,
    () => JSON.stringify(randomJson(random)),
    () => request('{}').slice(0, random.int(1, 30)),
    () => `${request('{}')}${request('{}')}`,
    () => `\ufeff${request('{}')}`,
    () => ' '.repeat(random.int(1, 60_000)),
  ])();
}
