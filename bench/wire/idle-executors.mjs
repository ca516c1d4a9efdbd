import { randomBytes } from 'node:crypto';
import { Agent, request } from 'node:http';

const SECURITY_PROFILE = 'noise_hybrid_ik_v1';
const SUITE = 'Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256';

/** A relay takes some 4,000 sockets from one address: each loopback address stands for a machine with that many. */
const EXECUTORS_PER_ADDRESS = 2_500;

/**
 * Executors that register, connect and then stay idle. Each costs this process one socket. Their keys are random bytes, which only a
 * connecting harness would notice.
 */
export class IdleExecutors {
  #relay;
  #sockets = [];
  #lost = 0;
  #agent = new Agent({ keepAlive: true });

  /** @param {import('../harness/relay-fixture.mjs').BenchRelay} relay */
  constructor(relay) {
    this.#relay = relay;
  }

  /** Registers and connects one more. @param {number} index */
  async add(index) {
    const localAddress = `127.0.0.${2 + Math.floor(index / EXECUTORS_PER_ADDRESS)}`;
    const socket = await openWebSocket(await this.#register(`idle-${index}`, localAddress), localAddress);
    socket.resume();
    socket.on('error', () => {});
    socket.once('close', () => {
      this.#lost++;
    });
    this.#sockets.push(socket);
  }

  /** How many of them the relay has disconnected. */
  get lost() {
    return this.#lost;
  }

  close() {
    this.#agent.destroy();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** The URL at which the executor waits for harnesses. */
  #register(environmentId, localAddress) {
    const body = JSON.stringify({ security_profile: SECURITY_PROFILE, executor_public_key: someKey() });
    const call = request(`${this.#relay.url}/cloud/environment/${environmentId}/register`, {
      method: 'POST',
      agent: this.#agent,
      localAddress,
      headers: {
        authorization: `Bearer ${this.#relay.token('executor', environmentId)}`,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      },
    });
    return new Promise((resolve, reject) => {
      call.once('error', reject);
      call.once('response', async (response) => {
        const text = Buffer.concat(await response.toArray()).toString();
        if (response.statusCode === 200) resolve(JSON.parse(text).url);
        else reject(new Error(`a registration was answered with ${response.statusCode}: ${text}`));
      });
      call.end(body);
    });
  }
}

/** Resolves with the socket after the handshake. */
function openWebSocket(url, localAddress) {
  const call = request(url.replace(/^ws/, 'http'), {
    agent: false,
    localAddress,
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
    },
  });
  return new Promise((resolve, reject) => {
    call.once('error', reject);
    call.once('upgrade', (_response, socket) => resolve(socket));
    call.once('response', (response) => reject(new Error(`the relay answered ${response.statusCode}`)));
    call.end();
  });
}

function someKey() {
  return {
    suite: SUITE,
    x25519_public_key: randomBytes(32).toString('base64'),
    mlkem768_public_key: randomBytes(1_184).toString('base64'),
  };
}
