// The table of hostile and merely large inputs of a relay: what anyone, an executor or a harness can send at the documented limits.
import { once } from 'node:events';
import { connect } from 'node:net';
import { decodeFrame, encodeFrame, type FrameBody } from '../../src/relay/frames/frame.ts';
import { MAX_AUTHORIZATION_BYTES, MAX_FRAME_BYTES, MAX_FRAME_FIELDS } from '../../src/relay/limits.ts';
import { SECURITY_PROFILE } from '../../src/relay/noise/suite.ts';
import {
  MAX_BODY_BYTES,
  MAX_STREAM_ID_CHARS,
  MAX_STREAMS_PER_HARNESS,
  REQUESTS_PER_PERIOD,
} from '../../src/relay/service/limits.ts';
import { Environment, post, someKey, type TestPeer, token } from '../unit/relay/service/relay-fixture.ts';

/** Sends inputs of one kind to a relay, for an environment of its own, and returns the outcome. */
interface RelayRow {
  readonly run: (environment: Environment) => Promise<unknown>;
  /** The outcome. A merely large input must be accepted. */
  readonly outcome: unknown;
}

type Rows = Readonly<Record<string, RelayRow>>;

/** A registration with this body. */
function registration(body: string | Buffer, outcome: number): RelayRow {
  return { run: (environment) => statusOf(environment, { body }), outcome };
}

const registrationBody = () =>
  JSON.stringify({ security_profile: SECURITY_PROFILE, executor_public_key: someKey() });

function keyBody(key: object): string {
  return JSON.stringify({
    security_profile: SECURITY_PROFILE,
    executor_public_key: { ...someKey().toJSON(), ...key },
  });
}

const HALF = MAX_BODY_BYTES / 2;

const BODIES: Rows = {
  'nested arrays': registration(`${'['.repeat(HALF)}${']'.repeat(HALF)}`, 400),
  'nested objects': registration(`${'{"a":'.repeat(2_500)}1${'}'.repeat(2_500)}`, 400),
  'many keys': registration(`{${Array.from({ length: 1_600 }, (_, at) => `"k${at}":0`).join()}}`, 400),
  'a text of escapes': registration(`{"security_profile":"${'\\u0041'.repeat(2_700)}"}`, 400),
  'a long number': registration(`{"security_profile":${'9'.repeat(MAX_BODY_BYTES - 30)}}`, 400),
  'bytes that are not UTF-8': registration(Buffer.alloc(MAX_BODY_BYTES, 0xff), 400),
  'no JSON': registration('x'.repeat(MAX_BODY_BYTES), 400),
  'a key of the wrong length': registration(keyBody({ mlkem768_public_key: 'A'.repeat(14_000) }), 400),
  'a key that is not base64': registration(keyBody({ mlkem768_public_key: '='.repeat(14_000) }), 400),
  'a key with other members': registration(keyBody({ more: 'x'.repeat(14_000) }), 400),
  'the largest body': registration(registrationBody().padEnd(MAX_BODY_BYTES), 200),
  'a body of one byte more': registration(registrationBody().padEnd(MAX_BODY_BYTES + 1), 413),
  'a large announced body': {
    run: (environment) => statusOf(environment, { headers: ['content-length: 1000000000000'] }),
    outcome: 413,
  },
  'chunks of one byte': {
    run: (environment) => {
      const bytes = [...Buffer.from(registrationBody())].map(
        (byte) => `1\r\n${String.fromCharCode(byte)}\r\n`,
      );
      return statusOf(environment, {
        headers: ['transfer-encoding: chunked'],
        body: `${bytes.join('')}0\r\n\r\n`,
      });
    },
    outcome: 200,
  },
  'as many registrations as allowed, and one more': {
    run: (environment) =>
      counts(REQUESTS_PER_PERIOD + 1, async () => (await environment.register(someKey())).status),
    outcome: { 200: REQUESTS_PER_PERIOD, 429: 1 },
  },
};

/** A registration of an environment with this name. */
function named(name: string, outcome: number): RelayRow {
  return {
    run: (environment) => statusOf(environment, { path: `/cloud/environment/${name}/register` }),
    outcome,
  };
}

const NAMES: Rows = {
  'the longest name': {
    run: async ({ url, id }) => {
      const relayUrl = new URL(url).origin;
      return (await new Environment(relayUrl, id.padEnd(64, 'x')).register(someKey())).status;
    },
    outcome: 200,
  },
  'a name of one character more': named('n'.repeat(65), 404),
  'a name of 12 KB': named('n'.repeat(12_000), 404),
  'a name of escapes': named('%2e'.repeat(4_000), 404),
  'a name of slashes': named('/'.repeat(12_000), 404),
  'a name of dots': named('../'.repeat(4_000), 404),
  'a long query': named(`n/register?${'a=b&'.repeat(3_000)}`, 403),
  'a head that is too long': {
    run: (environment) => statusOf(environment, { headers: [`x: ${'x'.repeat(100_000)}`] }),
    outcome: 431,
  },
  'a head of many fields': {
    run: (environment) =>
      statusOf(environment, {
        headers: Array.from({ length: 900 }, (_, at) => `x-${at}: y`),
        body: registrationBody(),
      }),
    outcome: 200,
  },
};

/** A registration with this token. */
function bearer(text: string): RelayRow {
  return {
    run: (environment) => statusOf(environment, { bearer: text, body: registrationBody() }),
    outcome: 401,
  };
}

/** A websocket with this ticket. */
function ticket(text: string): RelayRow {
  return {
    run: (environment) =>
      statusOf(environment, {
        path: `/cloud/rendezvous/${environment.id}?ticket=${text}`,
        method: 'GET',
        headers: [
          'upgrade: websocket',
          'connection: upgrade',
          'sec-websocket-version: 13',
          'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
        ],
      }),
    outcome: 401,
  };
}

const TOKENS: Rows = {
  'a long token': bearer('x'.repeat(12_000)),
  'a token of dots': bearer('.'.repeat(12_000)),
  'a token with a wrong seal': bearer(`${'A'.repeat(12_000)}.${'A'.repeat(43)}`),
  'a token with a long seal': bearer(`A.${'A'.repeat(12_000)}`),
  'a token after many blanks': bearer(`${' '.repeat(12_000)}.`),
  'a token before many blanks': bearer(`x${' '.repeat(12_000)}x`),
  'a token of another role': {
    run: (environment) =>
      statusOf(environment, { bearer: token('harness', environment.id), body: registrationBody() }),
    outcome: 403,
  },
  'a long ticket': ticket('x'.repeat(12_000)),
  'a ticket of dots': ticket('.'.repeat(12_000)),
  'a ticket of escapes': ticket('%2e'.repeat(4_000)),
};

/** Sends a frame from the harness to the executor and back. */
function passes(frame: Uint8Array, count = 1): RelayRow {
  return {
    run: async (environment) => {
      const [executor, harness] = await connected(environment);
      for (let sent = 0; sent < count; sent++) harness.send(frame);
      const there = await executor.hasReceived(count);
      // A reset ends the stream, so the way back as well.
      if (decodeFrame(frame).body.kind === 'reset') return isSame(there, frame);
      for (let sent = 0; sent < count; sent++) executor.send(frame);
      const back = await harness.hasReceived(count);
      return isSame([...there, ...back], frame);
    },
    outcome: true,
  };
}

function isSame(received: readonly Uint8Array[], frame: Uint8Array): boolean {
  return received.every((bytes) => Buffer.compare(bytes, frame) === 0);
}

/** Sends a frame from the harness, whose socket is closed with this code. */
function closes(frame: Uint8Array, code: number): RelayRow {
  return {
    run: async (environment) => {
      const [, harness] = await connected(environment);
      harness.send(frame);
      return (await harness.hasClosed()).code;
    },
    outcome: code,
  };
}

/** Sends streams from the harness. Counts the resets that come back. */
function streams(ids: readonly string[], resets: number): RelayRow {
  return {
    run: async (environment) => {
      const [executor, harness] = await connected(environment);
      for (const id of ids) harness.record(id, 0);
      await executor.hasReceived(ids.length - resets);
      await harness.hasReceived(resets);
      return harness.frames.filter(({ body }) => body.kind === 'reset').length;
    },
    outcome: resets,
  };
}

const frameOf = (body: FrameBody, streamId = 's') => encodeFrame({ streamId, body });
const record = (length: number) => frameOf({ kind: 'data', seq: 0, payload: Buffer.alloc(length, 1) });
/** A record in a frame of the largest size. */
const LARGEST = record(MAX_FRAME_BYTES - (record(MAX_FRAME_BYTES - 100).length - (MAX_FRAME_BYTES - 100)));
/** A resume frame with this many fields, of which all but three are unknown. */
const manyFields = (count: number) => Buffer.from(`08011201733a00${'f80101'.repeat(count - 3)}`, 'hex');

const FRAMES: Rows = {
  'the largest record': passes(LARGEST),
  'many records of the largest size': passes(LARGEST, 32),
  'ten thousand tiny records': passes(record(1), 10_000),
  'a frame of one byte more': closes(Buffer.concat([LARGEST, Buffer.of(0)]), 1009),
  'a large handshake': passes(frameOf({ kind: 'handshake', payload: Buffer.alloc(260_000) })),
  'a reset with a long reason': passes(frameOf({ kind: 'reset', reason: 'r'.repeat(260_000) })),
  'a segment of many': passes(
    frameOf({
      kind: 'data',
      seq: 2 ** 32 - 1,
      payload: Buffer.of(1),
      segment: { index: 2 ** 32 - 2, count: 2 ** 32 - 1 },
    }),
  ),
  'a long trace context': passes(
    encodeFrame({ streamId: 's', body: { kind: 'heartbeat' }, tracestate: 't'.repeat(260_000) }),
  ),
  'as many fields as allowed': passes(manyFields(MAX_FRAME_FIELDS)),
  'one field more': closes(manyFields(MAX_FRAME_FIELDS + 1), 1008),
  'a frame full of fields': closes(Buffer.concat(Array(87_000).fill(Buffer.of(0xf8, 1, 1))), 1008),
  'nested groups': closes(Buffer.alloc(MAX_FRAME_BYTES, 0x0b), 1008),
  'numbers without an end': closes(Buffer.alloc(MAX_FRAME_BYTES, 0xff), 1008),
  'the longest stream id': streams(['i'.repeat(MAX_STREAM_ID_CHARS)], 0),
  'a stream id of 260 KB': streams(['i'.repeat(260_000)], 1),
  'as many streams as allowed, and one more': streams(
    Array.from({ length: MAX_STREAMS_PER_HARNESS + 1 }, (_, at) => `stream-${at}`),
    1,
  ),
};

/** A `validate` call with this authorization. */
function validation(authorization: string, outcome: unknown): RelayRow {
  return {
    run: async (environment) => {
      const registered = (await environment.register(someKey())).body.executor_registration_id;
      const { status, body } = await environment.validate(registered, someKey(), authorization);
      return status === 200 ? body.valid : status;
    },
    outcome,
  };
}

const GRANTS: Rows = {
  'as many authorizations as allowed, each used once': {
    run: async (environment) => {
      await environment.executor();
      const key = someKey();
      const grants: { executor_registration_id: string; harness_key_authorization: string }[] = [];
      const connecting = await counts(REQUESTS_PER_PERIOD, async () => {
        const { status, body } = await environment.connect(key);
        grants.push(body);
        return status;
      });
      const validating = await counts(grants.length, async () => {
        const { executor_registration_id: id, harness_key_authorization: authorization } = grants.pop()!;
        return (await environment.validate(id, key, authorization)).body.valid;
      });
      return { connecting, validating };
    },
    outcome: { connecting: { 200: REQUESTS_PER_PERIOD }, validating: { true: REQUESTS_PER_PERIOD } },
  },
  'an unknown authorization': validation('a'.repeat(43), false),
  'the longest authorization': validation('a'.repeat(MAX_AUTHORIZATION_BYTES), false),
  'an authorization of one byte more': validation('a'.repeat(MAX_AUTHORIZATION_BYTES + 1), 400),
  'an authorization of escapes': validation('\u0001'.repeat(1_300), false),
  'an authorization that does not fit': validation('a'.repeat(MAX_BODY_BYTES), 413),
  'a harness key with a long member': {
    run: async (environment) => {
      const key = { ...someKey().toJSON(), x25519_public_key: 'A'.repeat(14_000) };
      return (await post(`${environment.url}/connect`, environment.harnessToken, { harness_public_key: key }))
        .status;
    },
    outcome: 400,
  },
};

/** The rows by what they send. */
export const RELAY_ROWS: Readonly<Record<string, Rows>> = {
  'registration bodies': BODIES,
  names: NAMES,
  'tokens and tickets': TOKENS,
  frames: FRAMES,
  authorizations: GRANTS,
};

/** An executor and a harness of the environment. */
async function connected(environment: Environment): Promise<[TestPeer, TestPeer]> {
  return [await environment.executor(), await environment.harness()];
}

/** Calls `ask` this often, several at a time, and counts the outcomes. */
async function counts(count: number, ask: () => Promise<unknown>): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  let left = count;
  const worker = async () => {
    while (left-- > 0) {
      const outcome = String(await ask());
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  return outcomes;
}

/** Sends a request as it is, by default a registration of the environment, and returns the status of the answer. */
async function statusOf(
  environment: Environment,
  request: {
    readonly method?: string;
    readonly path?: string;
    readonly bearer?: string;
    readonly headers?: readonly string[];
    readonly body?: string | Buffer;
  },
): Promise<number> {
  const { hostname, port, pathname } = new URL(`${environment.url}/register`);
  const {
    method = 'POST',
    path = pathname,
    bearer = environment.executorToken,
    headers = [],
    body,
  } = request;
  const isFramed = headers.some((header) => /^(content-length|transfer-encoding):/.test(header));
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `host: ${hostname}:${port}`,
    `authorization: Bearer ${bearer}`,
    'content-type: application/json',
    ...(isFramed || method === 'GET' ? [] : [`content-length: ${Buffer.byteLength(body ?? '')}`]),
    ...headers,
  ];
  const socket = connect(Number(port), hostname);
  try {
    socket.on('error', () => {});
    socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    if (body !== undefined) socket.write(body);
    const [answer] = await once(socket, 'data');
    return Number(/^HTTP\/1\.1 (\d+)/.exec(String(answer))?.[1]);
  } finally {
    socket.destroy();
  }
}
