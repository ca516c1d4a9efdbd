import { createRequire } from 'node:module';
import type { Writable } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeTextFrames } from '../../../src/transport/frame-encoder.ts';

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
