import { createRequire } from 'node:module';
import type { Writable } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  encodeMaskedFrame,
  encodeTextFrames,
  WHOLE_BINARY,
  WHOLE_TEXT,
} from '../../../src/transport/frame-encoder.ts';

/** Parses the bytes with the websocket library. */
function decode(bytes: Buffer): string[] {
  const received: string[] = [];
  const { Receiver } = createRequire(import.meta.url)('ws') as {
    Receiver: new (options: object) => Writable;
  };
  const receiver = new Receiver({ isServer: false });
  receiver.on('message', (data: Buffer) => received.push(data.toString()));
  receiver.write(bytes);
  return received;
}

test.each([0, 1, 125, 126, 127, 65_535, 65_536, 70_000])(
  'encodes a message of %i bytes as one frame',
  (length) => {
    const message = 'x'.repeat(length);
    expect(decode(encodeTextFrames([message]))).toEqual([message]);
    expect(decode(encodeTextFrames([Buffer.from(message)]))).toEqual([message]);
  },
);

test('the library decodes any messages unchanged and in order', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme' })), (messages) => {
      const mixed = messages.map((message, index) => (index % 2 === 0 ? message : Buffer.from(message)));
      expect(decode(encodeTextFrames(mixed))).toEqual(messages);
    }),
  );
});

/** The messages that a server gets. */
function received(...frames: Buffer[]): { text: string; isBinary: boolean }[] {
  const messages: { text: string; isBinary: boolean }[] = [];
  const { Receiver } = createRequire(import.meta.url)('ws') as {
    Receiver: new (options: object) => Writable;
  };
  const receiver = new Receiver({ isServer: true });
  receiver.on('message', (data: Buffer, isBinary: boolean) =>
    messages.push({ text: data.toString(), isBinary }),
  );
  for (const frame of frames) receiver.write(Buffer.from(frame));
  return messages;
}

test.each([0, 1, 125, 126, 65_535, 65_536, 300_000])('masks a message of %i bytes in any parts', (length) => {
  const text = 'äb'.repeat(length).slice(0, length);
  const bytes = Buffer.from(text);
  const middle = Math.floor(bytes.length / 3);
  const frame = encodeMaskedFrame(WHOLE_BINARY, [bytes.subarray(0, middle), bytes.subarray(middle)]);
  expect(received(frame.bytes)).toEqual([{ text, isBinary: true }]);
  frame.release();
  expect(received(encodeMaskedFrame(WHOLE_TEXT, [text, text]).bytes)).toEqual([
    { text: `${text}${text}`, isBinary: false },
  ]);
});

test('masks parts of a message', () => {
  const part = (bytes: string, isFirst: boolean, isLast: boolean) =>
    encodeMaskedFrame({ isBinary: true, isFirst, isLast }, [Buffer.from(bytes)]).bytes;
  expect(received(part('a', true, false), part('b', false, false), part('', false, true))).toEqual([
    { text: 'ab', isBinary: true },
  ]);
});

test('masks each frame with another key', () => {
  const keys = Array.from({ length: 2_000 }, () =>
    encodeMaskedFrame(WHOLE_TEXT, ['']).bytes.subarray(2).toString('hex'),
  );
  expect(new Set(keys).size).toBeGreaterThan(1_990);
});
