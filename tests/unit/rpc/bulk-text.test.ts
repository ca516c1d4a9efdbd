import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeMessage, type RequestMessage } from '../../../src/protocol/envelope.ts';
import { MalformedMessageError } from '../../../src/protocol/json-scan.ts';
import { DEFAULT_MESSAGE_LIMITS } from '../../../src/protocol/limits.ts';
import { decodeLargeMessage, paramsWithText } from '../../../src/rpc/bulk-text.ts';
import { route } from '../../../src/rpc/router.ts';

const LARGE = Buffer.alloc(60_000, 7).toString('base64');

function decode(message: unknown): RequestMessage {
  return decodeLargeMessage(Buffer.from(JSON.stringify(message)), DEFAULT_MESSAGE_LIMITS) as RequestMessage;
}

test('a large base64 parameter stays bytes, and the rest is decoded', () => {
  const message = {
    id: 'ä',
    method: 'fs/writeFile',
    params: { path: 'file:///ü', dataBase64: LARGE },
    trace: null,
  };
  const decoded = decode(message);
  expect(decoded).toMatchObject({ id: '"ä"', method: 'fs/writeFile', params: { path: 'file:///ü' } });
  expect(decoded.bytes).toBe(Buffer.byteLength(JSON.stringify(message)));
  expect(Buffer.from(decoded.bulk!.bytes).toString()).toBe(LARGE);
  expect(decoded.bulk!.field).toBe('dataBase64');
});

test.each([
  ['a small text', { path: 'file:///', dataBase64: 'aGk=' }],
  ['a text with an escape', { path: 'file:///', dataBase64: `${LARGE}\\` }],
  ['a text that is not a parameter', { path: 'file:///', nested: { dataBase64: LARGE } }],
  ['a text inside an array', [{ chunk: LARGE }]],
  ['a look-alike inside a text', { path: `"chunk":"${LARGE}"` }],
  ['another field', { other: LARGE }],
])('%s is decoded as usual', (_, params) => {
  const decoded = decode({ id: 1, method: 'fs/writeFile', params });
  expect(decoded.bulk).toBeUndefined();
  expect(decoded.params).toEqual(params);
});

test('a method that does not expect bulk text gets a string', () => {
  const params = { processId: 'p', chunk: LARGE };
  const routed = route(decode({ id: 1, method: 'command/exec/write', params }));
  expect(routed).toMatchObject({ bulk: null, params });
});

test('a method that does gets it beside its params', () => {
  const routed = route(
    decode({ id: 1, method: 'fs/writeBlock', params: { handleId: 'h', offset: 3, chunk: LARGE } }),
  );
  expect(routed.bulk?.field).toBe('chunk');
  expect(routed.params).toMatchObject({ handleId: 'h', offset: 3 });
});

test('limits hold and what is no JSON is refused', () => {
  const broken = Buffer.from(`{"id":1,"method":"m","params":{"chunk":"${LARGE}"`);
  expect(() => decodeLargeMessage(broken, DEFAULT_MESSAGE_LIMITS)).toThrow(MalformedMessageError);
  const twice = Buffer.from(`{"id":1,"method":"m","params":{"chunk":"${LARGE}","chunk":""}}`);
  expect(() => decodeLargeMessage(twice, DEFAULT_MESSAGE_LIMITS)).toThrow('duplicate key');
});

test('every message means the same as when it is decoded whole', () => {
  const text = fc.oneof(fc.constant(LARGE), fc.string({ unit: 'binary' }), fc.constant(`${LARGE}"`));
  const member = fc.constantFrom('chunk', 'dataBase64', 'path', 'é');
  const params = fc.dictionary(member, fc.oneof(text, fc.dictionary(member, text), fc.array(text)));
  fc.assert(
    fc.property(params, fc.boolean(), (given, spaced) => {
      const bytes = Buffer.from(JSON.stringify({ id: 1, method: 'm', params: given }, null, spaced ? 1 : 0));
      const whole = decodeMessage(bytes.toString(), DEFAULT_MESSAGE_LIMITS) as RequestMessage;
      const { bulk, ...decoded } = decodeLargeMessage(bytes, DEFAULT_MESSAGE_LIMITS) as RequestMessage;
      const params = bulk === undefined ? decoded.params : paramsWithText(decoded.params, bulk);
      expect({ ...decoded, params, bytes: 0 }).toEqual({ ...whole, bytes: 0 });
    }),
    { numRuns: 300 },
  );
});
