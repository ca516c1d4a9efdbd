import type { IncomingMessage } from 'node:http';
import { randomHex } from '../../src/base/random-hex.ts';
import { decodeFrame, encodeFrame, type ReceivedFrame } from '../../src/relay/frames/frame.ts';
import { NoisePublicKey } from '../../src/relay/noise/public-key.ts';
import { SECURITY_PROFILE } from '../../src/relay/noise/suite.ts';
import type { FrameSocket } from '../../src/transport/frame-socket.ts';
import { type Asked, type FakeAnswer, FakeRegistry } from '../unit/relay/fake-registry.ts';

/**
 * One self-hosted environment of OpenAI's Agents API: its registry and its rendezvous. It behaves as the reference's contract says,
 * and has no support for acks. It records whatever a codex executor would not do.
 */
export class AgentsApi {
  /** Longer than the ids of this project's relay. */
  readonly environmentId = `ccarenv_b64_${randomHex()}${randomHex()}`;
  readonly environmentKey = `sk-environment-${randomHex()}`;
  /** A key without the scope of an environment. */
  readonly projectKey = `sk-project-${randomHex()}`;
  readonly harnessToken = `harness-${randomHex()}`;
  readonly remoteUrl: string;
  /** Deviations of the executor from the contract. */
  readonly violations: string[] = [];
  /** The executor's key at each registration. */
  readonly registeredKeys: NoisePublicKey[] = [];
  /** URLs of the executor's websockets. */
  readonly executorUrls: string[] = [];
  /** Number of `connect` calls that were answered with 409. */
  offlineAnswers = 0;
  readonly #registry: FakeRegistry;
  readonly #base = `/v1/agents/api/connect/rt_${randomHex()}`;
  readonly #authorizations = new Map<string, string>();
  readonly #streams = new Map<string, FrameSocket>();
  #executor: FrameSocket | null = null;
  #signature = randomHex();

  private constructor(registry: FakeRegistry) {
    this.#registry = registry;
    this.remoteUrl = `${registry.url}${this.#base}`;
    registry.answer = (asked) => this.#answer(asked);
    registry.refuse = (request) => this.#refuse(request);
    registry.accepted = (socket, request) => {
      if (roleOf(request) === 'environment') this.#executorConnected(socket, request);
      else this.#harnessConnected(socket);
    };
  }

  static async open(): Promise<AgentsApi> {
    return new AgentsApi(await FakeRegistry.open());
  }

  /** The environment as a harness sees it. */
  get harness() {
    return { registryUrl: this.remoteUrl, environmentId: this.environmentId, auth: this.harnessToken };
  }

  get connected(): boolean {
    return this.#executor !== null;
  }

  /** Cuts the executor's websocket. */
  disconnect(): void {
    this.#executor?.drop();
  }

  /** Makes all websocket URLs invalid: the executor has to register again. */
  expireUrls(): void {
    this.#signature = randomHex();
  }

  #answer({ path, headers, body }: Asked): FakeAnswer {
    const action = new RegExp(`^${this.#base}/cloud/environment/${this.environmentId}/(\\w+)$`).exec(
      path,
    )?.[1];
    if (action === undefined) return refusal(404, 'not_found', 'no such environment');
    const isHarness = action === 'connect';
    if (headers.authorization === `Bearer ${this.projectKey}`) {
      return refusal(403, 'missing_scope', 'missing required scope api.agents.environments.connect');
    }
    const key = isHarness ? this.harnessToken : this.environmentKey;
    if (headers.authorization !== `Bearer ${key}`)
      return refusal(401, 'invalid_api_key', 'incorrect API key');
    if (!isHarness) this.#expect('content-type', headers['content-type'] === 'application/json');
    switch (action) {
      case 'register':
        return this.#register(body);
      case 'connect':
        return this.#connect(body);
      default:
        this.#expect('stream id header', /^[0-9a-f-]{36}$/.test(String(headers['x-codex-noise-stream-id'])));
        return this.#validate(body);
    }
  }

  #register(body: Record<string, unknown>): FakeAnswer {
    this.#expect('register', keysOf(body) === 'executor_public_key,security_profile');
    this.#expect('security profile', body.security_profile === SECURITY_PROFILE);
    this.registeredKeys.push(NoisePublicKey.parse(body.executor_public_key));
    return { body: this.#registration('environment') };
  }

  #connect(body: Record<string, unknown>): FakeAnswer {
    const executorKey = this.registeredKeys.at(-1);
    if (this.#executor === null || executorKey === undefined) {
      this.offlineAnswers++;
      return refusal(409, 'environment_offline', 'the environment is not connected');
    }
    const authorization = randomHex();
    this.#authorizations.set(authorization, JSON.stringify(body.harness_public_key));
    return {
      body: {
        ...this.#registration('harness'),
        executor_public_key: executorKey,
        harness_key_authorization: authorization,
      },
    };
  }

  /** An authorization is valid once, for one harness key. */
  #validate(body: Record<string, unknown>): FakeAnswer {
    this.#expect(
      'validate',
      keysOf(body) === 'executor_registration_id,harness_key_authorization,harness_public_key',
    );
    const authorization = String(body.harness_key_authorization);
    const key = this.#authorizations.get(authorization);
    this.#authorizations.delete(authorization);
    const isCurrent = body.executor_registration_id === this.#registrationId;
    return { body: { valid: isCurrent && key === JSON.stringify(body.harness_public_key) } };
  }

  /** The same key keeps its registration. */
  get #registrationId(): string {
    const last = this.registeredKeys.at(-1);
    return `registration-${this.registeredKeys.findIndex((key) => last?.equals(key))}`;
  }

  #registration(role: 'environment' | 'harness') {
    const base = `${this.#registry.url.replace('http', 'ws')}/cloud-agent/default/ws/environment`;
    return {
      environment_id: this.environmentId,
      url: `${base}/${this.environmentId}?role=${role}&sig=${this.#signature}`,
      security_profile: SECURITY_PROFILE,
      executor_registration_id: this.#registrationId,
      ignored: { by: 'executors and harnesses' },
    };
  }

  #refuse(request: IncomingMessage): number | null {
    this.#expect('no credential on the websocket', request.headers.authorization === undefined);
    if (!request.url?.endsWith(`&sig=${this.#signature}`)) return 403;
    return roleOf(request) === 'harness' && this.#executor === null ? 503 : null;
  }

  #executorConnected(socket: FrameSocket, { url, headers }: IncomingMessage): void {
    this.#expect('x-request-id', /^req_[0-9a-f]{32}$/.test(String(headers['x-request-id'])));
    this.#expect('no extensions', headers['sec-websocket-extensions'] === undefined);
    this.executorUrls.push(url!);
    this.#executor?.drop();
    this.#executor = socket;
    socket.open({
      frame: (bytes) => this.#fromExecutor(bytes),
      drained: () => {},
      closed: () => {
        if (this.#executor !== socket) return;
        this.#executor = null;
        for (const harness of new Set(this.#streams.values())) harness.drop();
      },
    });
  }

  #fromExecutor(bytes: Uint8Array): void {
    const frame = decodeFrame(bytes);
    const { ack, ackBits, body } = frame;
    this.#expect('frames without acks', ack === 0 && ackBits === 0);
    this.#expect('kinds of frames', ['handshake', 'data', 'reset'].includes(body.kind));
    this.#expect('no segments', body.kind !== 'data' || body.segment === undefined);
    this.#streams.get(frame.streamId)?.send(bytes);
  }

  #harnessConnected(socket: FrameSocket): void {
    socket.open({
      frame: (bytes) => {
        const frame = decodeFrame(bytes);
        this.#streams.set(frame.streamId, socket);
        this.#executor?.send(likeReference(frame) ?? bytes);
      },
      drained: () => {},
      closed: () => {
        for (const [streamId, owner] of this.#streams) {
          if (owner !== socket) continue;
          this.#streams.delete(streamId);
          this.#executor?.send(encodeFrame({ streamId, body: { kind: 'reset', reason: 'harness_gone' } }));
        }
      },
    });
  }

  #expect(what: string, holds: boolean): void {
    if (!holds) this.violations.push(what);
  }
}

/** The harness of the reference does not offer acks. Returns null for a frame without an offer. */
function likeReference({ streamId, ackBits, body }: ReceivedFrame): Uint8Array | null {
  return body.kind === 'handshake' && ackBits !== 0 ? encodeFrame({ streamId, body }) : null;
}

function roleOf({ url = '' }: IncomingMessage): string | null {
  return new URL(url, 'ws://localhost').searchParams.get('role');
}

function keysOf(body: object): string {
  return Object.keys(body).sort().join();
}

function refusal(status: number, code: string, message: string): FakeAnswer {
  return { status, body: { error: { code, message } } };
}
