import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as ws from 'ws';
import { FrameParser } from '../../../src/transport/frame-parser.ts';
import { BufferedMessage } from '../../../src/transport/growable-buffer.ts';
import { FRAME_COST, LARGE_MESSAGE_BYTES } from '../../../src/transport/limits.ts';
import { randomInputs } from '../../support/random-inputs.ts';

const [CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG] = [0, 1, 2, 8, 9, 10];

/** A frame as a client sends it, or nearly so. */
interface FrameParts {
  readonly opcode: number;
  readonly payload: Uint8Array;
  readonly final?: boolean;
  readonly reserved?: number;
  readonly key?: Uint8Array | null;
  /** Bytes that hold the length; the shortest form by default. */
  readonly lengthBytes?: 0 | 2 | 8;
}

function frame({ opcode, payload, final = true, reserved = 0, key, lengthBytes }: FrameParts): Buffer {
  const { length } = payload;
  const form = lengthBytes ?? (length < 126 ? 0 : length < 65_536 ? 2 : 8);
  const header = Buffer.alloc(2 + form);
  header[0] = (final ? 0x80 : 0) | (reserved << 4) | opcode;
  header[1] = (key === null ? 0 : 0x80) | (form === 0 ? length : form === 2 ? 126 : 127);
  if (form === 2) header.writeUInt16BE(length, 2);
  if (form === 8) header.writeBigUInt64BE(BigInt(length), 2);
  if (key === null) return Buffer.concat([header, payload]);
  const mask = key ?? Buffer.of(0x5a, 0xc3, 0x17, 0x8e);
  return Buffer.concat([header, mask, payload.map((byte, index) => byte ^ mask[index % 4]!)]);
}

const text = (words: string, parts: Partial<FrameParts> = {}) =>
  frame({ opcode: TEXT, payload: Buffer.from(words), ...parts });

/** The result of parsing: the texts, and what the library made of the rest. */
interface ParseResult {
  readonly log: string[];
}

/** The websocket library's receiver, which its types do not declare. */
type Receiver = import('node:stream').Writable;
const { Receiver } = ws as unknown as {
  Receiver: new (options: { isServer: boolean; maxPayload: number }) => Receiver;
};

function library(log: string[], maxPayload: number): { take(bytes: Buffer): void; stop(): void } {
  const receiver = new Receiver({ isServer: true, maxPayload });
  let isOver = false;
  receiver.on('message', (data: Buffer, isBinary: boolean) => log.push(messageOf(data, isBinary)));
  receiver.on('ping', (data: Buffer) => log.push(`ping ${data.toString('latin1')}`));
  receiver.on('pong', (data: Buffer) => log.push(`pong ${data.toString('latin1')}`));
  receiver.on('conclude', (code: number, reason: Buffer) => {
    isOver = true;
    log.push(`close ${code} ${reason}`);
  });
  receiver.on('error', (error: Error & { code: string }) => {
    if (!isOver) log.push(`error ${error.code} ${error.message}`);
    isOver = true;
  });
  return {
    take: (bytes) => void (isOver || receiver.write(bytes)),
    stop: () => {
      isOver = true;
    },
  };
}

const messageOf = (data: Buffer, isBinary: boolean) =>
  `${isBinary ? 'binary' : 'text'} ${data.toString('latin1')}`;

/** Parses chunks with the library alone. */
async function libraryResult(chunks: readonly Buffer[], maxBytes: number): Promise<ParseResult> {
  const log: string[] = [];
  const { take } = library(log, maxBytes);
  for (const chunk of chunks) {
    take(Buffer.from(chunk));
    await new Promise(setImmediate);
  }
  return { log };
}

/** Parses chunks with the parser in front of the library. It stops after every `framesPerTurn` frames or pieces. */
async function parserResult(
  chunks: readonly Buffer[],
  maxBytes: number,
  framesPerTurn: number,
): Promise<ParseResult> {
  const log: string[] = [];
  const behind = library(log, maxBytes);
  let left = 0;
  const parser = new FrameParser(maxBytes === NO_LIMIT ? Number.POSITIVE_INFINITY : maxBytes, {
    message: (bytes, isBinary) => log.push(messageOf(bytes, isBinary)),
    begin: (expectedBytes, isBinary) =>
      new BufferedMessage(expectedBytes, (bytes) => log.push(messageOf(bytes, isBinary))),
    tooLarge: () => {
      behind.stop();
      log.push('error WS_ERR_UNSUPPORTED_MESSAGE_LENGTH Max payload size exceeded');
    },
    pass: (bytes) => behind.take(bytes),
    spend: () => {},
    mayContinue: () => left-- > 0,
  });
  for (const chunk of chunks) {
    for (let rest = Buffer.from(chunk); rest.length > 0; ) {
      left = framesPerTurn;
      rest = rest.subarray(parser.take(rest));
    }
    await new Promise(setImmediate);
  }
  return { log };
}

/** Splits bytes at the given fractions. */
function cut(bytes: Buffer, offsets: readonly number[]): Buffer[] {
  const ends = [...offsets.map((offset) => Math.floor(offset * bytes.length)), bytes.length].sort(
    (a, b) => a - b,
  );
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

const NO_LIMIT = 0;
const every = (bytes: Buffer) => Array.from(bytes, (byte) => Buffer.of(byte));

describe.each([
  ['without a stop', Number.POSITIVE_INFINITY],
  ['in turns', 1],
])('parsed %s, the parser', (_how, framesPerTurn) => {
  const storyOf = async (bytes: Buffer, chunks = [bytes], maxBytes = NO_LIMIT) =>
    (await parserResult(chunks, maxBytes, framesPerTurn)).log;

  test.each([0, 1, 125, 126, 127, 65_535, 65_536, LARGE_MESSAGE_BYTES - 1, LARGE_MESSAGE_BYTES, 300_000])(
    'receives a text of %i bytes, whole or in chunks',
    async (length) => {
      const words = 'abcdefghijklmnopqrstuvwxyz'.repeat(length / 26 + 1).slice(0, length);
      const bytes = Buffer.concat([text(words), text('next')]);
      expect(await storyOf(bytes)).toEqual([`text ${words}`, 'text next']);
      expect(await storyOf(bytes, cut(bytes, [0.1, 0.2, 0.5, 0.99]))).toEqual([`text ${words}`, 'text next']);
    },
  );

  test('receives many messages in one chunk, and one message in many chunks', async () => {
    const bytes = Buffer.concat([text('one'), text(''), text('two'), frame({ opcode: PING, payload: NONE })]);
    const expected = ['text one', 'text ', 'text two', 'ping '];
    expect(await storyOf(bytes)).toEqual(expected);
    expect(await storyOf(bytes, every(bytes))).toEqual(expected);
  });

  test('joins a fragmented text, with control frames in between', async () => {
    const bytes = Buffer.concat([
      text('to', { final: false }),
      frame({ opcode: PING, payload: Buffer.from('p') }),
      text('get', { opcode: CONTINUATION, final: false }),
      text('', { opcode: CONTINUATION, final: false }),
      frame({ opcode: PONG, payload: NONE }),
      text('her', { opcode: CONTINUATION }),
      text('next'),
    ]);
    const expected = ['ping p', 'pong ', 'text together', 'text next'];
    expect(await storyOf(bytes)).toEqual(expected);
    expect(await storyOf(bytes, every(bytes))).toEqual(expected);
  });

  test('joins a character that is split between fragments or chunks', async () => {
    const [first, second] = [Buffer.from('é').subarray(0, 1), Buffer.from('é').subarray(1)];
    const bytes = Buffer.concat([
      frame({ opcode: TEXT, payload: first, final: false }),
      frame({ opcode: CONTINUATION, payload: second }),
    ]);
    expect(await storyOf(bytes, every(bytes))).toEqual([`text ${Buffer.from('é').toString('latin1')}`]);
  });

  test('receives a binary message between texts, also in fragments', async () => {
    const bytes = Buffer.concat([
      text('before'),
      frame({ opcode: BINARY, payload: Buffer.of(0xff, 0xfe), final: false }),
      frame({ opcode: CONTINUATION, payload: Buffer.of(0xfd) }),
      text('behind'),
    ]);
    const expected = ['text before', 'binary \xff\xfe\xfd', 'text behind'];
    expect(await storyOf(bytes)).toEqual(expected);
    expect(await storyOf(bytes, every(bytes))).toEqual(expected);
  });

  const begun = text('begun', { final: false });
  test.each([
    ['a reserved bit', text('x', { reserved: 4 }), 'WS_ERR_UNEXPECTED_RSV_1'],
    ['another reserved bit', text('x', { reserved: 1 }), 'WS_ERR_UNEXPECTED_RSV_2_3'],
    ['an unknown opcode', text('x', { opcode: 3 }), 'WS_ERR_INVALID_OPCODE'],
    ['an unknown control opcode', text('x', { opcode: 11 }), 'WS_ERR_INVALID_OPCODE'],
    ['no mask', text('x', { key: null }), 'WS_ERR_EXPECTED_MASK'],
    ['a continuation of nothing', text('x', { opcode: CONTINUATION }), 'WS_ERR_INVALID_OPCODE'],
    ['a text within a text', Buffer.concat([begun, text('x')]), 'WS_ERR_INVALID_OPCODE'],
    [
      'a binary message within a text',
      Buffer.concat([begun, text('x', { opcode: BINARY })]),
      'WS_ERR_INVALID_OPCODE',
    ],
    [
      'a reserved bit within a text',
      Buffer.concat([begun, text('x', { opcode: 0, reserved: 2 })]),
      'WS_ERR_UNEXPECTED_RSV_2_3',
    ],
    ['a ping in fragments', text('x', { opcode: PING, final: false }), 'WS_ERR_EXPECTED_FIN'],
    ['a long ping', text('x'.repeat(126), { opcode: PING }), 'WS_ERR_INVALID_CONTROL_PAYLOAD_LENGTH'],
    ['a close of one byte', text('x', { opcode: CLOSE }), 'WS_ERR_INVALID_CONTROL_PAYLOAD_LENGTH'],
    [
      'a close with a wrong code',
      frame({ opcode: CLOSE, payload: Buffer.of(0, 1) }),
      'WS_ERR_INVALID_CLOSE_CODE',
    ],
    ['a text that is not UTF-8', frame({ opcode: TEXT, payload: Buffer.of(0xff) }), 'WS_ERR_INVALID_UTF8'],
    [
      'a large text that is not UTF-8',
      frame({ opcode: TEXT, payload: Buffer.alloc(100_000, 0xff) }),
      'WS_ERR_INVALID_UTF8',
    ],
    [
      'fragments that are not UTF-8 together',
      Buffer.concat([begun, frame({ opcode: CONTINUATION, payload: Buffer.of(0xc3) })]),
      'WS_ERR_INVALID_UTF8',
    ],
    ['a length beyond numbers', frameOfLength(2n ** 63n), 'WS_ERR_UNSUPPORTED_DATA_PAYLOAD_LENGTH'],
  ])('%s is refused by the library, and nothing after it is parsed', async (_name, bytes, code) => {
    const all = Buffer.concat([text('before'), bytes, text('behind')]);
    for (const chunks of [[all], every(all)]) {
      const log = await storyOf(all, chunks);
      expect(log[0]).toBe('text before');
      expect(log.slice(1)).toEqual([expect.stringContaining(`error ${code}`)]);
    }
  });

  test('limits the total size of all fragments', async () => {
    const part = (opcode: number, final: boolean) => text('x'.repeat(40), { opcode, final });
    const allowed = Buffer.concat([part(TEXT, false), part(CONTINUATION, true), text('next')]);
    expect(await storyOf(allowed, [allowed], 80)).toEqual([`text ${'x'.repeat(80)}`, 'text next']);
    const tooLong = Buffer.concat([part(TEXT, false), part(CONTINUATION, true), text('next')]);
    expect(await storyOf(tooLong, [tooLong], 79)).toEqual([
      'error WS_ERR_UNSUPPORTED_MESSAGE_LENGTH Max payload size exceeded',
    ]);
    const binary = Buffer.concat([part(BINARY, false), part(CONTINUATION, true), text('next')]);
    expect(await storyOf(binary, [binary], 79)).toEqual([
      'error WS_ERR_UNSUPPORTED_MESSAGE_LENGTH Max payload size exceeded',
    ]);
    expect(await storyOf(tooLong, [frameOfLength(81n)], 80)).toEqual([
      'error WS_ERR_UNSUPPORTED_MESSAGE_LENGTH Max payload size exceeded',
    ]);
  });

  test('parses nothing after a close', async () => {
    const close = frame({ opcode: CLOSE, payload: Buffer.concat([Buffer.of(3, 232), Buffer.from('bye')]) });
    const bytes = Buffer.concat([text('before'), close, text('behind'), close]);
    expect(await storyOf(bytes)).toEqual(['text before', 'close 1000 bye']);
    expect(await storyOf(bytes, every(bytes))).toEqual(['text before', 'close 1000 bye']);
  });

  test('gives the same result as the library alone, for any input', async () => {
    const payload = fc.oneof(
      fc.string({ maxLength: 300 }).map((words) => Buffer.from(words)),
      fc.uint8Array({ maxLength: 140 }),
      fc.integer({ min: 60_000, max: 70_000 }).map((length) => Buffer.alloc(length, 'é')),
    );
    const anyFrame = fc.record({
      opcode: fc.oneof({ weight: 12, arbitrary: fc.constantFrom(0, 1, 1, 1, 2, 8, 9, 10) }, fc.nat(15)),
      payload,
      final: fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, fc.boolean()),
      reserved: fc.oneof({ weight: 20, arbitrary: fc.constant(0) }, fc.nat(7)),
      key: fc.oneof(
        { weight: 20, arbitrary: fc.uint8Array({ minLength: 4, maxLength: 4 }) },
        fc.constant(null),
      ),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyFrame, { minLength: 1, maxLength: 8 }),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 }),
        fc.constantFrom(NO_LIMIT, 200, 65_536),
        async (frames, offsets, maxBytes) => {
          const chunks = cut(Buffer.concat(frames.map((parts) => frame(parts))), offsets);
          const { log } = await libraryResult(chunks, maxBytes);
          expect((await parserResult(chunks, maxBytes, framesPerTurn)).log).toEqual(log);
        },
      ),
      { numRuns: randomInputs(300) },
    );
  }, 60_000);
});

test('announces the length of messages that are large, fragmented or split', () => {
  const announced: number[] = [];
  const parser = new FrameParser(Number.POSITIVE_INFINITY, {
    message: ({ length }) => announced.push(-length),
    begin: (expectedBytes) => {
      announced.push(expectedBytes);
      return new BufferedMessage(expectedBytes, () => {});
    },
    tooLarge: () => {},
    pass: () => {},
    spend: () => {},
    mayContinue: () => true,
  });
  parser.take(text('whole'));
  for (const piece of cut(text('in pieces'), [0.9])) parser.take(Buffer.from(piece));
  parser.take(text('x'.repeat(LARGE_MESSAGE_BYTES)));
  parser.take(text('first', { final: false }));
  parser.take(text('second', { opcode: CONTINUATION }));
  expect(announced).toEqual([-5, 9, LARGE_MESSAGE_BYTES, 5]);
});

test('every frame costs credit, also an empty one, and so does every byte', () => {
  let spent = 0;
  const parser = new FrameParser(1_000, {
    message: () => {},
    begin: (expectedBytes) => new BufferedMessage(expectedBytes, () => {}),
    tooLarge: () => {},
    pass: () => {},
    spend: (cost) => {
      spent += cost;
    },
    mayContinue: () => true,
  });
  const costOf = (bytes: Buffer) => {
    spent = 0;
    parser.take(Buffer.from(bytes));
    return spent;
  };
  expect(costOf(frame({ opcode: PING, payload: NONE }))).toBe(FRAME_COST);
  expect(costOf(frame({ opcode: PONG, payload: NONE }))).toBe(FRAME_COST);
  expect(costOf(text('hello'))).toBe(FRAME_COST + 5);
  expect(costOf(text('', { final: false }))).toBe(FRAME_COST);
  expect(costOf(text('', { opcode: CONTINUATION, final: false }))).toBe(FRAME_COST);
  expect(costOf(text('x', { opcode: CONTINUATION }))).toBe(FRAME_COST + 1);
});

const NONE = new Uint8Array(0);

/** The header of a text that never arrives. */
function frameOfLength(length: bigint): Buffer {
  const header = Buffer.alloc(14);
  header[0] = 0x80 | TEXT;
  header[1] = 0x80 | 127;
  header.writeBigUInt64BE(length, 2);
  return header;
}
