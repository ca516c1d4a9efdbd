import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decodeMessage,
  encodeError,
  encodeMalformed,
  encodeNotification,
  encodeRequest,
  encodeResult,
  numericId,
  type RequestId,
  UNREADABLE_ID,
} from '../../../src/protocol/envelope.ts';
import { RpcError } from '../../../src/protocol/errors.ts';
import { MalformedMessageError } from '../../../src/protocol/json-scan.ts';
import { DEFAULT_MESSAGE_LIMITS, MAX_IDENTIFIER_LENGTH } from '../../../src/protocol/limits.ts';
import { ANY_CHARACTER } from '../../support/any-character.ts';
import { retainedBytes } from '../../support/retained-memory.ts';

const decode = (text: string) => decodeMessage(text, DEFAULT_MESSAGE_LIMITS);

describe('message kinds', () => {
  test.each([
    ['{"id":1,"method":"m"}', { kind: 'request', id: '1', method: 'm', params: undefined, trace: null }],
    ['{"id":1,"method":"m","params":null}', { kind: 'request', params: null }],
    ['{"id":1,"method":"m","params":[1]}', { kind: 'request', params: [1] }],
    ['{"id":56,"method":"m","result":1}', { kind: 'request', id: '56' }],
    ['{"id":1,"method":"m","error":{"code":1,"message":"x"}}', { kind: 'request' }],
    ['{"method":"m","params":{}}', { kind: 'notification', method: 'm', params: {} }],
    ['{"method":"m","result":1}', { kind: 'notification' }],
    ['{"id":1,"result":null}', { kind: 'response', id: '1', result: null }],
    ['{"id":1,"result":0,"error":{"code":1,"message":"x"}}', { kind: 'response', result: 0 }],
    [
      '{"id":1,"error":{"code":-1,"message":"x","data":[]}}',
      { kind: 'error', error: { code: -1, message: 'x', data: [] } },
    ],
    ['{"jsonrpc":"1.0","id":1,"method":"m"}', { kind: 'request' }],
    ['{"jsonrpc":{},"id":1,"method":"m","extra":[{}]}', { kind: 'request' }],
    [' \r\n\t{"id":1,"method":"m"}\n ', { kind: 'request' }],
    ['{"id":1,"method":"m","x":1e999,"y":123456789012345678901234567890}', { kind: 'request' }],
    ['{"id":1,"method":"m","__proto__":{"params":5,"trace":5}}', { params: undefined, trace: null }],
  ])('%s', (text, expected) => {
    expect(decode(text)).toMatchObject(expected);
  });

  test('reports the size of a request', () => {
    const text = '{"id":1,"method":"m","params":{"x":"0123456789"}}';
    expect(decode(text)).toMatchObject({ bytes: text.length });
  });
});

describe('ids', () => {
  test.each([
    '0',
    '-5',
    '1',
    '9007199254740993',
    '9223372036854775807',
    '-9223372036854775808',
    '""',
    '"7"',
    '"a\\"b\\\\"',
    '"é😀"',
  ])('keeps the id %s exactly', (id) => {
    const message = decode(`{"id":${id},"method":"m"}`) as { id: RequestId };
    expect(message.id).toBe(id);
    expect(encodeResult(message.id, {})).toBe(`{"id":${id},"result":{}}`);
    expect(decode(encodeResult(message.id, {}))).toMatchObject({ kind: 'response', id });
  });

  test('treats an escaped string id as the same string', () => {
    expect(decode('{"id":"\\u0061","method":"m"}')).toMatchObject({ id: '"a"' });
  });

  test.each([
    '1.5',
    '1.0',
    '1e0',
    '-0.0',
    'null',
    'true',
    'false',
    '{}',
    '[]',
    '9223372036854775808',
    '-9223372036854775809',
    '123456789012345678901234567890',
    '1'.repeat(100_000),
  ])('refuses the id %s', (id) => {
    for (const rest of ['"method":"m"', '"result":1', '"error":{"code":1,"message":"x"}']) {
      expect(() => decode(`{"id":${id},${rest}}`)).toThrow('`id` must be a string or a 64-bit integer');
    }
  });

  test('refuses null as an id instead of treating it as absent', () => {
    expect(() => decode('{"id":null,"method":"initialized"}')).toThrow(MalformedMessageError);
  });

  test('keeps any 64-bit integer exactly', () => {
    fc.assert(
      fc.property(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), (id) => {
        expect(decode(`{"method":"m","id":${id}}`)).toMatchObject({ id: String(id) });
      }),
    );
  });
});

describe('malformed messages', () => {
  test.each([
    ['an open brace', '{'],
    ['nothing', ''],
    ['spaces', '   '],
    ['null', 'null'],
    ['a number', '12'],
    ['a string', '"x"'],
    ['a literal', 'true'],
    ['an empty batch', '[]'],
    ['a batch', '[{"id":1,"method":"m"}]'],
    ['an empty object', '{}'],
    ['only an id', '{"id":1}'],
    ['an error without an id', '{"error":{"code":1,"message":"x"}}'],
    ['a result without an id', '{"result":1}'],
    ['an error that is a number', '{"id":1,"error":5}'],
    ['an error that is a string', '{"id":1,"error":"code"}'],
    ['an error that is null', '{"id":1,"error":null}'],
    ['an error without a message', '{"id":1,"error":{"code":1}}'],
    ['an error with a fractional code', '{"id":1,"error":{"code":1.0,"message":"x"}}'],
    ['a method that is a number', '{"id":1,"method":5}'],
    ['a method that is null', '{"id":1,"method":null}'],
    ['text after the object', '{"id":1,"method":"m"} x'],
    ['two objects', '{"id":1,"method":"m"}{"id":2,"method":"m"}'],
    ['a duplicate key', '{"id":1,"method":"m","id":2}'],
    ['NaN', '{"id":1,"method":"m","x":NaN}'],
    ['Infinity', '{"id":1,"method":"m","x":-Infinity}'],
    ['a byte order mark', '\ufeff{"id":1,"method":"m"}'],
    ['a control character', '{"id":1,"method":"a\u0001b"}'],
    ['a trailing comma', '{"id":1,"method":"m",}'],
    ['a trailing comma in an array', '{"id":1,"method":"m","params":[1,]}'],
    ['single quotes', "{'id':1,'method':'m'}"],
    ['a leading zero', '{"id":01,"method":"m"}'],
    ['a plus sign', '{"id":+1,"method":"m"}'],
    ['a hexadecimal number', '{"id":0x1,"method":"m"}'],
    ['a bare dot', '{"id":1,"method":"m","x":1.}'],
    ['a bad escape', '{"id":1,"method":"\\x"}'],
    ['a short unicode escape', '{"id":1,"method":"\\ud80"}'],
    ['a comment', '{"id":1,/* no */"method":"m"}'],
    ['a key without quotes', '{id:1,"method":"m"}'],
    ['a string that does not end', '{"id":1,"method":"m'],
    ['an escape at the end', '{"id":1,"method":"\\'],
    ['mismatched brackets', '{"id":1,"method":"m","params":[}]'],
    ['a missing colon', '{"id":1,"method" "m"}'],
    ['a trace that is a number', '{"id":1,"method":"m","trace":5}'],
    ['a trace that is a string', '{"id":1,"method":"m","trace":"x"}'],
    ['a trace that is an array', '{"id":1,"method":"m","trace":[]}'],
    ['a traceparent that is a number', '{"id":1,"method":"m","trace":{"traceparent":5}}'],
    ['a tracestate that is an object', '{"id":1,"method":"m","trace":{"tracestate":{}}}'],
  ])('%s', (_name, text) => {
    expect(() => decode(text)).toThrow(MalformedMessageError);
  });

  test.each([
    '{"id":1,"method":"m","secret-31337":@}',
    '{"id":1,"x":"secret at position 31337","y":@}',
    '{"secret-31337":tru}',
    '{"position 31337":@}',
    '{"secret-31337":1,"secret-31337":2}',
    '["secret-31337"]',
    '"secret-31337"',
    'secret-31337',
    '{"id":"secret-31337"}',
    '{"id":31337.5,"method":"secret"}',
    '{"id":1,"error":"secret-31337"}',
    '{"id":1,"method":{"secret":31337}}',
    '{"id":1,"method":"m","trace":"secret-31337"}',
    '{"id":1,"method":"m"} secret-31337 at position 31337',
  ])('never quotes the input in the reason: %s', (text) => {
    expect(() => decode(text)).toThrow(MalformedMessageError);
    expect(() => decode(text)).not.toThrow(/secret|31337/);
  });

  test('reports the position where the text stops being JSON', () => {
    expect(() => decode('{"id":1,"method":"m"}x')).toThrow('not valid JSON at offset 21');
  });
});

test.each([
  ['null', null],
  ['{}', { traceparent: null, tracestate: null }],
  ['{"traceparent":null}', { traceparent: null, tracestate: null }],
  ['{"traceparent":"nonsense","tracestate":"a=b"}', { traceparent: 'nonsense', tracestate: 'a=b' }],
  ['{"traceparent":"p","other":{"large":1}}', { traceparent: 'p', tracestate: null }],
])('reads the trace %s as %j', (trace, expected) => {
  const message = decode(`{"id":1,"method":"m","trace":${trace}}`) as { trace: unknown };
  expect(message.trace).toEqual(expected);
});

test('accepts any trace in a notification', () => {
  expect(decode('{"method":"m","trace":5}')).toMatchObject({ kind: 'notification' });
});

test('decodes params like JSON.parse, except numbers that are not written as 64-bit integers', () => {
  const asDecoded = (_key: string, value: unknown) =>
    typeof value === 'number' &&
    (/[.e]/.test(JSON.stringify(value)) || value >= 2 ** 64 || value <= -(2 ** 63))
      ? 0.5
      : value;
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 8, stringUnit: ANY_CHARACTER }), (params) => {
      const text = JSON.stringify(params);
      const message = decode(`{"params":${text},"method":"m","id":1}`) as { params: unknown };
      expect(JSON.stringify(message.params)).toBe(JSON.stringify(JSON.parse(text, asDecoded)));
    }),
    { numRuns: 500 },
  );
});

test('refuses any text that is not a message as malformed', () => {
  const token = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '"id"',
    '"method"',
    '1',
    '0.5',
    'null',
    ' ',
  );
  fc.assert(
    fc.property(fc.array(token, { maxLength: 20 }), (tokens) => {
      const text = tokens.join('');
      let message: unknown = null;
      try {
        message = decode(text);
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedMessageError);
      }
      if (message !== null) expect(() => JSON.parse(text)).not.toThrow();
    }),
    { numRuns: 2_000 },
  );
});

test('decodes a value of 60 MiB and keeps one copy of it', () => {
  const text = received(`{"id":1,"method":"m","params":{"chunk":"${'A'.repeat(60 * 1024 * 1024)}"}}`);
  const kept = retainedBytes(() => {
    const message = decode(text) as { params: { chunk: string } };
    expect(message.params.chunk).toHaveLength(60 * 1024 * 1024);
    return message;
  });
  expect(kept).toBeLessThan(90 * 1024 * 1024);
});

test.each(['"an id that is long enough to be a slice"', '9223372036854775807'])(
  'the id %s does not keep its message in memory',
  (id) => {
    const decodeId = () => {
      const message = decode(received(`{"id":${id},"method":"m","junk":"${'x'.repeat(5_000_000)}"}`));
      return (message as { id: RequestId }).id;
    };
    // The engine may keep the last text it handled, so a single message proves nothing.
    const kept = retainedBytes(() => Array.from({ length: 10 }, decodeId));
    expect(kept).toBeLessThan(20_000_000);
  },
);

describe('encoding', () => {
  const id = numericId(3);

  test('writes members in the order of the reference', () => {
    expect(encodeResult(id, { a: 1 })).toBe('{"id":3,"result":{"a":1}}');
    expect(encodeError(id, new RpcError(-32600, 'no'))).toBe(
      '{"error":{"code":-32600,"message":"no"},"id":3}',
    );
    expect(encodeError(id, new RpcError(1, 'no', { x: 1 }))).toBe(
      '{"error":{"code":1,"message":"no","data":{"x":1}},"id":3}',
    );
    expect(encodeNotification('m', { a: 1 })).toBe('{"method":"m","params":{"a":1}}');
    expect(encodeNotification('m')).toBe('{"method":"m"}');
    expect(encodeRequest(id, 'm', [1])).toBe('{"id":3,"method":"m","params":[1]}');
    expect(encodeRequest(id, 'm')).toBe('{"id":3,"method":"m"}');
  });

  test.each([
    [null, -1],
    ['7', 7],
    ['"seven"', 'seven'],
    ['7.5', -1],
    ['"seven', -1],
    [JSON.stringify('x'.repeat(MAX_IDENTIFIER_LENGTH + 1)), -1],
  ])('answers an invalid message with the id %s as %s', (rawId, id) => {
    expect(JSON.parse(encodeMalformed({ message: 'why', rawId }))).toEqual({
      error: { code: -32600, message: 'malformed JSON-RPC message: why' },
      id,
    });
    expect(UNREADABLE_ID).toBe('-1');
  });

  test('decodes what it encodes', () => {
    fc.assert(
      fc.property(fc.string(), fc.jsonValue(), (method, params) => {
        const decoded = decode(encodeRequest(id, method, params));
        expect(decoded).toMatchObject({ kind: 'request', id: '3', method });
      }),
    );
  });
});

/** The text as one string, as a transport delivers it. */
function received(text: string): string {
  return Buffer.from(text).toString();
}
