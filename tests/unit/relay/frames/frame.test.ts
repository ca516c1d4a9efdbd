import { create, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decodeFrame,
  encodeFrame,
  type FrameBody,
  type RelayFrame,
} from '../../../../src/relay/frames/frame.ts';
import { RelayMessageFrameSchema } from '../../../../src/relay/frames/generated/relay_pb.ts';
import { MAX_FRAME_BYTES, MAX_FRAME_FIELDS } from '../../../../src/relay/limits.ts';
import { ANY_CHARACTER } from '../../../support/any-character.ts';
import { hex, sha256Hex, vectors } from '../noise-vectors.ts';

const streamId = vectors.stream_id;
const { frames } = vectors;

describe('the recorded frames', () => {
  test.each<[string, RelayFrame]>([
    ['resume_hex', { streamId, body: { kind: 'resume', nextSeq: 0 } }],
    [
      'data_h2e_0_hex',
      { streamId, body: { kind: 'data', seq: 0, payload: hex(vectors.record_h2e_0.ciphertext_hex) } },
    ],
    [
      'data_h2e_1_hex',
      { streamId, body: { kind: 'data', seq: 1, payload: hex(vectors.record_h2e_1.ciphertext_hex) } },
    ],
    ['reset_hex', { streamId, body: { kind: 'reset', reason: 'noise_relay_protocol_error' } }],
    [
      'data_with_trace_hex',
      {
        streamId,
        body: { kind: 'data', seq: 2, payload: Buffer.of(0) },
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      },
    ],
  ])('%s', (name, frame) => {
    expect(Buffer.from(encodeFrame(frame)).toString('hex')).toBe(frames[name]);
    expect(plain(decodeFrame(hex(frames[name]!)))).toEqual(plain(frame));
  });

  test('the handshake', () => {
    const encoded = encodeFrame({ streamId, body: { kind: 'handshake', payload: hex(vectors.msg1_hex) } });
    expect(encoded.length).toBe(Number(frames.handshake_msg1_len));
    expect(sha256Hex(encoded)).toBe(frames.handshake_msg1_sha256);
  });
});

describe('a generated frame', () => {
  const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
  const bytes = fc.uint8Array({ minLength: 1, maxLength: 300 });
  const text = fc.string({ unit: ANY_CHARACTER, minLength: 1 });
  const segment = fc.record({ index: uint32, count: fc.integer({ min: 2, max: 2 ** 32 - 1 }) });
  const body: fc.Arbitrary<FrameBody> = fc.oneof(
    fc.record({ kind: fc.constant('data' as const), seq: uint32, payload: bytes }),
    fc.record({ kind: fc.constant('data' as const), seq: uint32, payload: bytes, segment }),
    fc.constant({ kind: 'ack' as const }),
    fc.record({ kind: fc.constant('resume' as const), nextSeq: uint32 }),
    fc.record({ kind: fc.constant('reset' as const), reason: text }),
    fc.constant({ kind: 'heartbeat' as const }),
    fc.record({ kind: fc.constant('handshake' as const), payload: bytes }),
  );
  const frame: fc.Arbitrary<RelayFrame> = fc.record(
    {
      streamId: text.filter((id) => id.trim() !== ''),
      ack: uint32,
      ackBits: uint32,
      body,
      traceparent: text,
      tracestate: text,
    },
    { requiredKeys: ['streamId', 'body'] },
  );

  test('decodes to the encoded value', () => {
    fc.assert(
      fc.property(frame, (any) => {
        expect(plain(decodeFrame(encodeFrame(any)))).toEqual(plain(any));
      }),
    );
  });

  test('is rejected or decodes to a valid frame when damaged', () => {
    fc.assert(
      fc.property(
        frame,
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        fc.boolean(),
        (any, where, mask, cut) => {
          const encoded = encodeFrame(any);
          const at = where % encoded.length;
          const damaged = cut ? encoded.subarray(0, at) : Uint8Array.from(encoded);
          if (!cut) damaged[at]! ^= mask;
          try {
            const read = decodeFrame(damaged);
            expect(plain(decodeFrame(encodeFrame(read)))).toEqual(plain(read));
          } catch (error) {
            expect(error).toMatchObject({ name: 'RelayError', kind: 'protocol' });
          }
        },
      ),
    );
  });
});

test('encodes a record to the same bytes as the protobuf library', () => {
  const edges = fc.constantFrom(0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 2 ** 31, 2 ** 32 - 1);
  const number = fc.oneof(edges, fc.integer({ min: 0, max: 2 ** 32 - 1 }));
  const payload = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 300 }),
    fc.constantFrom(16_383, 16_384, 61_456).map((length) => new Uint8Array(length).fill(7)),
  );
  const name = fc.oneof(fc.uuid(), fc.string({ unit: 'grapheme', maxLength: 200 }));
  const segment = fc.option(fc.record({ index: number, count: number }), { nil: undefined });
  const fields = fc.record({ streamId: name, ack: number, ackBits: number, seq: number, payload, segment });
  fc.assert(
    fc.property(fields, ({ streamId, ack, ackBits, seq, payload, segment }) => {
      const { index: segmentIndex, count: segmentCount } = segment ?? { index: 0, count: 1 };
      const data = { case: 'data' as const, value: { seq, segmentIndex, segmentCount, payload } };
      const frame = create(RelayMessageFrameSchema, { version: 1, streamId, ack, ackBits, body: data });
      const encoded = encodeFrame({ streamId, ack, ackBits, body: { kind: 'data', seq, payload, segment } });
      expect(Buffer.compare(encoded, toBinary(RelayMessageFrameSchema, frame))).toBe(0);
    }),
  );
});

describe('rejects', () => {
  const wire = (init: Record<string, unknown>) =>
    toBinary(
      RelayMessageFrameSchema,
      create(RelayMessageFrameSchema, { version: 1, streamId: 's', ...init } as never),
    );
  const data = (value: Record<string, unknown>) => ({
    body: { case: 'data', value: { segmentCount: 1, payload: Buffer.of(1), ...value } },
  });

  test('accepts the valid frames that the cases are derived from', () => {
    expect(decodeFrame(wire(data({}))).body).toEqual({ kind: 'data', seq: 0, payload: new Uint8Array([1]) });
  });

  test.each([
    [1, 2],
    [0, 0],
    [7, 3],
  ])('but not segment %i of %i, which only the ends of a stream check', (index, count) => {
    const frame = wire(data({ segmentIndex: index, segmentCount: count }));
    expect(decodeFrame(frame).body).toMatchObject({ segment: { index, count } });
  });

  test.each<[string, Uint8Array]>([
    ['nothing', new Uint8Array()],
    ['no version', wire({ version: 0, ...data({}) })],
    ['another version', wire({ version: 2, ...data({}) })],
    ['no stream', wire({ streamId: '', ...data({}) })],
    ['a blank stream', wire({ streamId: ' \t\u2003', ...data({}) })],
    ['no body', wire({})],
    ['an empty record', wire(data({ payload: new Uint8Array() }))],
    ['an empty handshake', wire({ body: { case: 'handshake', value: {} } })],
    ['a reset without reason', wire({ body: { case: 'reset', value: {} } })],
    ['a stream that is not UTF-8', Buffer.from('08011201ff3a00', 'hex')],
    ['a frame that is too large', wire(data({ payload: Buffer.alloc(MAX_FRAME_BYTES) }))],
  ])('%s', (_name, bytes) => {
    expect(() => decodeFrame(bytes)).toThrow('invalid frame');
  });
});

test('skips unknown fields', () => {
  const bytes = Buffer.concat([hex(frames.resume_hex!), Buffer.from('9a0603616263', 'hex')]);
  expect(decodeFrame(bytes).body).toEqual({ kind: 'resume', nextSeq: 0 });
});

describe('field limits', () => {
  const hexOf = (...parts: string[]) => Buffer.from(parts.join(''), 'hex');
  const [version, stream, resume] = ['0801', '120173', '3a00'];

  test.each([
    ['its own, again', (count: number) => hexOf(stream, resume, version.repeat(count - 2))],
    ['unknown ones', (count: number) => hexOf(version, stream, resume, 'f80101'.repeat(count - 3))],
    [
      'those of its body',
      (count: number) =>
        hexOf(version, stream, '3a', (2 * (count - 3)).toString(16), '0800'.repeat(count - 3)),
    ],
  ])('rejects too many %s', (_name, frameOf) => {
    expect(decodeFrame(frameOf(MAX_FRAME_FIELDS)).body).toEqual({ kind: 'resume', nextSeq: 0 });
    expect(() => decodeFrame(frameOf(MAX_FRAME_FIELDS + 1))).toThrow('its fields are invalid');
  });

  test.each([
    ['a known field of another type', hexOf('0801', stream, '3800')],
    ['a known field of a body of another type', hexOf(version, stream, '3a020a00')],
    ['a field whose number does not fit', hexOf(version, stream, resume, '808080801000')],
    ['a number without end', hexOf(version, stream, resume, 'f801', 'ff'.repeat(10), '00')],
    ['a length beyond the frame', hexOf(version, stream, resume, 'fa0101')],
    ['a length beyond the body', hexOf(version, stream, '4202', '0a01', '61')],
    ['a group', hexOf(version, stream, resume, 'fb01fc01')],
    ['half a fixed number', hexOf(version, stream, resume, 'fd01000000')],
  ])('rejects %s', (_name, bytes) => {
    expect(() => decodeFrame(bytes)).toThrow('its fields are invalid');
  });

  test('allows unknown fields of fixed size', () => {
    const bytes = hexOf(version, stream, resume, 'fd0100000000', 'f9010000000000000000');
    expect(decodeFrame(bytes).body).toEqual({ kind: 'resume', nextSeq: 0 });
  });
});

/** Adds the defaults of absent fields and converts bytes to one type, for comparison. */
function plain(frame: RelayFrame) {
  const { streamId, ack = 0, ackBits = 0, body, traceparent, tracestate } = frame;
  const payload = 'payload' in body ? Buffer.from(body.payload).toString('hex') : null;
  return { streamId, ack, ackBits, body: { ...body, payload }, traceparent, tracestate };
}
