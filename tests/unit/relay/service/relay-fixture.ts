import { randomBytes, randomUUID } from 'node:crypto';
import { onTestFinished } from 'vitest';
import { createLogger } from '../../../../src/observability/log.ts';
import { decodeFrame, encodeFrame, type ReceivedFrame } from '../../../../src/relay/frames/frame.ts';
import { NoisePublicKey } from '../../../../src/relay/noise/public-key.ts';
import { SECURITY_PROFILE } from '../../../../src/relay/noise/suite.ts';
import { type TokenRole, writeToken } from '../../../../src/relay/service/access/access-tokens.ts';
import { Seal } from '../../../../src/relay/service/access/sealed-text.ts';
import { type RelayConfig, type RunningRelay, startRelay } from '../../../../src/relay/service/relay.ts';
import type { Store } from '../../../../src/relay/service/store/store.ts';
import { connectFrameSocket, type FrameSocket } from '../../../../src/transport/frame-socket.ts';
import type { CloseReason } from '../../../../src/transport/transport.ts';
import { waitFor } from '../../../support/wait-for.ts';

export const SECRET = 'a secret of at least thirty-two bytes';
export const LOOPBACK = { kind: 'websocket', secure: false, host: '127.0.0.1', port: 0 } as const;

/** A random public key without a secret key, which the relay never needs. */
export function someKey(): NoisePublicKey {
  return new NoisePublicKey(randomBytes(32), randomBytes(1_184));
}

/** Starts a relay in this process and records its log. The end of the test closes it. */
export async function startTestRelay(config: Partial<RelayConfig> = {}): Promise<TestRelay> {
  const lines: string[] = [];
  const relay = await startRelay({
    address: LOOPBACK,
    tls: null,
    secret: SECRET,
    store: 'memory',
    publicUrl: null,
    nodeUrl: null,
    revokedFile: null,
    auditLog: null,
    metrics: false,
    log: createLogger('debug', (line) => lines.push(line)),
    ...config,
  });
  onTestFinished(() => relay.close());
  return { ...relay, lines };
}

export interface TestRelay extends RunningRelay {
  readonly lines: readonly string[];
}

/** Creates a token for the test relay. */
export function token(role: TokenRole, environmentId: string | null = 'env-1', id: string = randomUUID()) {
  return writeToken(new Seal(SECRET), { id, role, environmentId, expiresAt: null });
}

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked into as they come.
  readonly body: any;
}

/** Sends a POST request. A string body is sent as is. */
export async function post(
  url: string,
  bearer: string | null,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    redirect: 'error',
    headers: {
      'content-type': 'application/json',
      ...(bearer !== null && { authorization: `Bearer ${bearer}` }),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? null : JSON.parse(text) };
}

/** The calls of one environment at one relay. */
export class Environment {
  readonly url: string;
  readonly id: string;
  readonly executorToken: string;
  readonly harnessToken: string;

  constructor(relayUrl: string, id = 'env-1') {
    this.id = id;
    this.url = `${relayUrl}/cloud/environment/${id}`;
    this.executorToken = token('executor', id);
    this.harnessToken = token('harness', id);
  }

  register(key: NoisePublicKey): Promise<Answer> {
    return post(`${this.url}/register`, this.executorToken, {
      security_profile: SECURITY_PROFILE,
      executor_public_key: key,
    });
  }

  connect(key: NoisePublicKey): Promise<Answer> {
    return post(`${this.url}/connect`, this.harnessToken, { harness_public_key: key });
  }

  validate(registrationId: string, key: NoisePublicKey, authorization: string): Promise<Answer> {
    return post(`${this.url}/validate`, this.executorToken, {
      executor_registration_id: registrationId,
      harness_public_key: key,
      harness_key_authorization: authorization,
    });
  }

  /** Registers and opens an executor's socket. */
  async executor(key = someKey()): Promise<TestPeer> {
    const { body } = await this.register(key);
    return await TestPeer.connect(body.url);
  }

  /** Requests a bundle and opens a harness's socket. */
  async harness(key = someKey()): Promise<TestPeer> {
    const { body } = await this.connect(key);
    return await TestPeer.connect(body.url);
  }
}

/** A websocket to a relay that records the frames it receives. */
export class TestPeer {
  readonly received: Uint8Array[] = [];
  closed: CloseReason | null = null;
  readonly socket: FrameSocket;

  private constructor(socket: FrameSocket) {
    this.socket = socket;
    socket.open({
      frame: (bytes) => this.received.push(bytes),
      drained: () => {},
      closed: (reason) => {
        this.closed = reason;
      },
    });
  }

  static async connect(url: string): Promise<TestPeer> {
    const peer = new TestPeer(await connectFrameSocket(url));
    onTestFinished(() => peer.socket.drop());
    return peer;
  }

  get frames(): ReceivedFrame[] {
    return this.received.map((bytes) => decodeFrame(bytes));
  }

  /** Sends a record of a stream and returns its bytes. */
  record(streamId: string, seq: number, payload: Uint8Array = Buffer.from(`record ${seq}`)): Uint8Array {
    return this.send(encodeFrame({ streamId, body: { kind: 'data', seq, payload } }));
  }

  resume(streamId: string, ackBits = 0): Uint8Array {
    return this.send(encodeFrame({ streamId, ackBits, body: { kind: 'resume', nextSeq: 0 } }));
  }

  reset(streamId: string): Uint8Array {
    return this.send(encodeFrame({ streamId, body: { kind: 'reset', reason: 'secret reason' } }));
  }

  send(bytes: Uint8Array): Uint8Array {
    this.socket.send(bytes);
    return bytes;
  }

  async hasReceived(count: number): Promise<readonly Uint8Array[]> {
    await waitFor(`${count} frames, not ${this.received.length}`, () => this.received.length >= count);
    return this.received;
  }

  async hasClosed(): Promise<CloseReason> {
    await waitFor('the end of a socket', () => this.closed);
    return this.closed!;
  }
}

/** Registers an executor and returns the id of its registration. */
export async function registrationOf(store: Store, key = someKey(), environmentId = 'e'): Promise<string> {
  const result = await store.register(environmentId, key);
  if (result.outcome === 'superseded') throw new Error('superseded');
  return result.registrationId;
}
