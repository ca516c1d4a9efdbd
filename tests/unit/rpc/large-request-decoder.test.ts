import { isUtf8 } from 'node:buffer';
import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import { decodeMessage, type Message, type RequestMessage } from '../../../src/protocol/envelope.ts';
import { MalformedMessageError } from '../../../src/protocol/json-scan.ts';
import { DEFAULT_MESSAGE_LIMITS } from '../../../src/protocol/limits.ts';
import { LargeRequestDecoder, paramsWithText } from '../../../src/rpc/large-request-decoder.ts';
import { MAX_REQUEST_TEXT_BYTES } from '../../../src/rpc/limits.ts';
import { route } from '../../../src/rpc/router.ts';
import { decodeStrictBase64 } from '../../../src/rpc/strict-base64.ts';
import { BUFFER_POOL } from '../../../src/transport/buffer-pool.ts';
import { ANY_CHARACTER } from '../../support/any-character.ts';

const LARGE = Buffer.alloc(30_000, 7).toString('base64');

/** Decodes bytes that arrive in chunks, split at the given fractions. */
function arrived(bytes: Buffer, offsets: readonly number[] = []): LargeRequestDecoder {
  const ends = [...offsets.map((offset) => Math.floor(offset * bytes.length)), bytes.length];
  const arriving = new LargeRequestDecoder(bytes.length);
  let at = 0;
  for (const end of ends.sort((a, b) => a - b)) {
    const piece = Buffer.from(bytes.subarray(at, end));
    arriving.add(piece);
    piece.fill(0);
    at = end;
  }
  return arriving;
}

function receive(bytes: Buffer, offsets?: readonly number[]): RequestMessage {
  const arriving = arrived(bytes, offsets);
  expect(arriving.isUtf8()).toBe(true);
  return arriving.decode(DEFAULT_MESSAGE_LIMITS) as RequestMessage;
}

function decode(message: unknown): RequestMessage {
  return receive(Buffer.from(JSON.stringify(message)));
}

test('decodes a base64 parameter as bytes, and the rest as JSON', () => {
  const message = {
    id: 'ä',
    method: 'fs/writeFile',
    params: { path: 'file:///ü', dataBase64: LARGE },
    trace: null,
  };
  const decoded = decode(message);
  expect(decoded).toMatchObject({ id: '"ä"', method: 'fs/writeFile', params: { path: 'file:///ü' } });
  expect(decoded.bytes).toBe(Buffer.byteLength(JSON.stringify(message)));
  expect(Buffer.from(LARGE, 'base64').equals(decoded.bulk!.bytes)).toBe(true);
  expect(decoded.bulk!.field).toBe('dataBase64');
});

test.each([
  ['a text with an escape', { path: 'file:///', dataBase64: `${LARGE}\\` }],
  ['a text with an escape behind a fault', { path: 'file:///', dataBase64: `${LARGE}!\n` }],
  ['a text with a control character behind a fault', { path: 'file:///', dataBase64: `!${LARGE}\u0007` }],
  ['a text that is not ASCII', { path: 'file:///', dataBase64: `${LARGE}é` }],
  ['a text that is not a parameter', { path: 'file:///', nested: { dataBase64: LARGE } }],
  ['a text inside an array', [{ chunk: LARGE }]],
  ['a look-alike inside a text', { path: `"chunk":"${LARGE}"` }],
  ['another field', { other: LARGE }],
])('decodes %s like any message', (_, params) => {
  const decoded = decode({ id: 1, method: 'fs/writeFile', params });
  expect(decoded.bulk).toBeUndefined();
  expect(decoded.params).toEqual(params);
});

const FAULTS = [
  ...[
    '!',
    'aGk',
    'aGl=',
    'aR==',
    '=',
    '==',
    '===',
    '====',
    'aGk=aGk=',
    'a=aa',
    'aGk=aGk!',
    'aGk==',
    'a b=',
    'a',
  ],
  ...['aG-_', `!${LARGE}`, `=${LARGE}`, `aGk=${LARGE}!`],
];

test.each(FAULTS.map((end) => [end.length > 20 ? `${end.slice(0, 5)}…` : end, end]))(
  'base64 that ends in %s is found faulty as it arrives, in the words in which all of it is',
  (_, end) => {
    const text = `${LARGE}${end}`;
    const bytes = Buffer.from(
      JSON.stringify({ id: 1, method: 'fs/writeFile', params: { path: 'file:///', dataBase64: text } }),
    );
    for (const offsets of [[], [0.2, 0.5, 0.9], [0.9994, 0.9996, 0.9998, 0.9999]]) {
      const { bulk, params } = receive(bytes, offsets);
      expect({ problem: bulk!.problem }).toEqual(decodeStrictBase64(text));
      expect(bulk!.text()).toBe(text);
      expect((params as { dataBase64: string }).dataBase64.length).toBeLessThan(100);
    }
  },
);

test.each([LARGE, `${LARGE}!`])('a method without a bulk field gets no bytes', (chunk) => {
  const params = { processId: 'p', signal: 'SIGTERM' };
  const routed = route(decode({ id: 1, method: 'process/signal', params: { ...params, chunk } }));
  expect(routed).toMatchObject({ bulk: null, params });
});

test('a method with a bulk field gets the bytes beside its params', () => {
  const routed = route(
    decode({ id: 1, method: 'fs/writeBlock', params: { handleId: 'h', offset: 3, chunk: LARGE } }),
  );
  expect(routed.bulk?.field).toBe('chunk');
  expect(routed.params).toMatchObject({ handleId: 'h', offset: 3 });
});

test.each([10, 100_000, MAX_REQUEST_TEXT_BYTES - 100])(
  'finds a base64 parameter behind %i bytes',
  (bytes) => {
    const whole = Buffer.from(
      `{"id":1,"method":"m","params":{"path":"${'x'.repeat(bytes)}","chunk": "${LARGE}"}}`,
    );
    for (const offsets of [[], [0.1, 0.2, 0.3, 0.31, 0.32], [0.99, 0.991]]) {
      expect(Buffer.from(LARGE, 'base64').equals(receive(whole, offsets).bulk!.bytes)).toBe(true);
    }
  },
);

const FULL = 'x'.repeat(MAX_REQUEST_TEXT_BYTES);
const FULL_BASE64 = 'QUJD'.repeat(MAX_REQUEST_TEXT_BYTES / 4);

test.each([
  ['in a text', { path: FULL }],
  ['before a base64 parameter', { path: FULL, chunk: LARGE }],
  ['behind a base64 parameter', { chunk: LARGE, path: FULL }],
  ['in base64 with an escape', { chunk: `${FULL_BASE64}\n` }],
  ['in faulty base64 with an escape', { chunk: `${FULL_BASE64}!\n` }],
  ['in base64 that is no parameter', { nested: { chunk: FULL_BASE64 } }],
])('refuses a message with too much %s', (_, params) => {
  const bytes = Buffer.from(JSON.stringify({ id: 1, method: 'm', params }));
  for (const offsets of [[], [0.2, 0.4, 0.6, 0.8, 0.99]]) {
    expect(() => receive(bytes, offsets)).toThrow(
      `more than ${MAX_REQUEST_TEXT_BYTES} bytes besides a base64 parameter`,
    );
  }
});

test.each([
  ['first', { id: 1, method: 'm', params: { path: FULL } }, '1'],
  ['behind the method', { method: 'm', id: 'a"b', params: { path: FULL } }, '"a\\"b"'],
  ['last', { method: 'm', params: { path: FULL }, id: -7 }, '-7'],
  ['last, behind the method', { params: { path: FULL }, method: 'm', id: 7 }, '7'],
  ['before the last', { jsonrpc: '2.0', params: { path: FULL }, id: 7, method: 'm' }, '7'],
  ['last, with base64', { method: 'm', params: { chunk: LARGE, path: FULL }, id: 'z' }, '"z"'],
  ['in the middle', { method: 'm', a: FULL, id: 1, params: { path: FULL } }, null],
  ['of a response', { id: 1, result: FULL }, null],
  ['only in the params', { method: 'm', params: { id: 1, path: FULL } }, null],
])('refuses too much text with the id of its request: %s', (_, message, rawId) => {
  const bytes = Buffer.from(JSON.stringify(message));
  for (const offsets of [[], [0.2, 0.4, 0.6, 0.8, 0.99]]) {
    let failure: unknown;
    try {
      receive(bytes, offsets);
    } catch (error) {
      failure = error;
    }
    expect(failure).toMatchObject({ name: 'MalformedMessageError', rawId });
  }
});

test('keeps nothing of a message with too much text', () => {
  const arriving = new LargeRequestDecoder(64 * MAX_REQUEST_TEXT_BYTES);
  const taken = vi.spyOn(BUFFER_POOL, 'take');
  onTestFinished(() => taken.mockRestore());
  for (let count = 0; count < 64; count++) arriving.add(Buffer.from(FULL));
  const largest = Math.max(...taken.mock.calls.map(([bytes]) => bytes));
  expect(largest).toBeLessThanOrEqual(2 * MAX_REQUEST_TEXT_BYTES);
});

test.each([1, 30_000, 200_000])('%i waiting bytes keep at most four times their size in memory', (length) => {
  const params = { path: 'file:///', dataBase64: Buffer.alloc(length).toString('base64') };
  const { bulk } = decode({ id: 1, method: 'fs/writeFile', params });
  expect(bulk!.bytes.buffer.byteLength).toBeLessThanOrEqual(4 * length);
});

test('returns the memory of the JSON to the pool after decoding, and that of the bytes on release', () => {
  const give = vi.spyOn(BUFFER_POOL, 'give');
  onTestFinished(() => give.mockRestore());
  const params = { path: 'file:///', dataBase64: Buffer.alloc(200_000).toString('base64') };
  const { bulk } = decode({ id: 1, method: 'fs/writeFile', params });
  const given = () => give.mock.calls.filter(([block]) => block.length > 0).map(([block]) => block.buffer);
  expect(given()).toHaveLength(1);
  expect(given()).not.toContain(bulk!.bytes.buffer);
  bulk!.release();
  bulk!.release();
  expect(given()).toHaveLength(2);
  expect(given()).toContain(bulk!.bytes.buffer);
});

test('enforces the limits and refuses invalid JSON', () => {
  const broken = Buffer.from(`{"id":1,"method":"m","params":{"chunk":"${LARGE}"`);
  expect(() => receive(broken)).toThrow(MalformedMessageError);
  expect(() => receive(broken.subarray(0, -1))).toThrow(MalformedMessageError);
  const twice = Buffer.from(`{"id":1,"method":"m","params":{"chunk":"${LARGE}","chunk":""}}`);
  expect(() => receive(twice)).toThrow('duplicate key');
});

test('detects invalid UTF-8 before and after the base64', () => {
  const message = (before: number[], behind: number[]) => {
    const arriving = new LargeRequestDecoder(0);
    for (const piece of [[...before], [...Buffer.from(`"chunk":"${LARGE}"`)], [...behind]])
      arriving.add(Buffer.from(piece));
    return arriving.isUtf8();
  };
  expect(message([0x7b], [0x7d])).toBe(true);
  expect(message([0xff], [0x7d])).toBe(false);
  expect(message([0x7b], [0xc3])).toBe(false);
});

test('detects invalid UTF-8 where the base64 does not end', () => {
  const bytes = Buffer.from(`{"chunk":"${LARGE}`);
  expect(arrived(bytes).isUtf8()).toBe(true);
  expect(arrived(Buffer.concat([bytes, Buffer.of(0xff)])).isUtf8()).toBe(false);
});

test('an error reports the position of the fault in the message', () => {
  const bytes = Buffer.from(`{"id":1,"method":"m","params":{"chunk":"${LARGE}",}}`);
  expect(() => receive(bytes)).toThrow(`not valid JSON at offset ${bytes.length - 2}`);
});

test('a damaged message gives the same result as when it is decoded whole', () => {
  const message = Buffer.from(
    JSON.stringify({ id: 1, method: 'm', params: { path: 'é', chunk: LARGE, more: 'é' } }),
  );
  // Half of the damage is at the ends, where there is more than base64.
  const offset = fc.oneof(
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.constantFrom(0.001, 0.999, 0.9996, 1),
  );
  const byte = fc.oneof(fc.nat(255), fc.constantFrom(...Buffer.from('"\\,:{}[]= ')));
  fc.assert(
    fc.property(
      offset,
      byte,
      fc.constantFrom('replace', 'insert', 'end'),
      offset,
      (at, damage, kind, cut) => {
        const position = Math.round(at * message.length);
        const behind = kind === 'end' ? message.length : position + (kind === 'replace' ? 1 : 0);
        const bytes = Buffer.concat([
          message.subarray(0, position),
          Buffer.of(damage),
          message.subarray(behind),
        ]);
        const arriving = arrived(bytes, [cut]);
        expect(arriving.isUtf8()).toBe(isUtf8(bytes));
        if (isUtf8(bytes)) {
          expect(outcome(() => withText(arriving.decode(DEFAULT_MESSAGE_LIMITS)))).toEqual(
            outcome(() => withText(decodeMessage(bytes.toString(), DEFAULT_MESSAGE_LIMITS))),
          );
        }
      },
    ),
    { numRuns: 500 },
  );
});

function outcome(decode: () => unknown): unknown {
  try {
    return decode();
  } catch (error) {
    return (error as Error).message;
  }
}

/** The parts of a message that do not depend on how it was decoded. */
function withText(message: Message): unknown {
  if (message.kind !== 'request') return message;
  const { bulk, bytes: _, params, ...rest } = message;
  if (bulk === undefined) return { ...rest, params };
  const judged = decodeStrictBase64(bulk.text());
  expect(bulk.problem).toBe('problem' in judged ? judged.problem : null);
  return { ...rest, params: paramsWithText(params, bulk) };
}

test('every message gives the same result as when it is decoded whole, for any chunks', () => {
  const text = fc.oneof(
    fc.constantFrom(LARGE, `${LARGE}"`, `${LARGE}aA==`, 'aGk=', ''),
    fc.constantFrom(...FAULTS.map((end) => `${LARGE}${end}`), 'aGl=', 'a=b=!'),
    fc.string({ unit: ANY_CHARACTER }),
  );
  const member = fc.constantFrom('chunk', 'dataBase64', 'bodyBase64', 'path', 'é');
  const params = fc.dictionary(member, fc.oneof(text, fc.dictionary(member, text), fc.array(text)));
  const offsets = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 });
  fc.assert(
    fc.property(params, fc.boolean(), offsets, (given, spaced, cuts) => {
      const bytes = Buffer.from(JSON.stringify({ id: 1, method: 'm', params: given }, null, spaced ? 1 : 0));
      const whole = decodeMessage(bytes.toString(), DEFAULT_MESSAGE_LIMITS) as RequestMessage;
      expect(withText(receive(bytes, cuts))).toEqual(withText(whole));
    }),
    { numRuns: 300 },
  );
});
