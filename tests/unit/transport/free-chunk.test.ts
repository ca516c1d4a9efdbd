import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { encodeMaskedFrame, WHOLE_BINARY } from '../../../src/transport/frame-encoder.ts';
import { FrameStream } from '../../../src/transport/frame-stream.ts';
import { freeChunk } from '../../../src/transport/free-chunk.ts';
import { FREED_CHUNK_MIN_BYTES } from '../../../src/transport/limits.ts';

test('frees a large chunk that has its memory to itself', () => {
  const chunk = Buffer.allocUnsafeSlow(FREED_CHUNK_MIN_BYTES);
  freeChunk(chunk);
  expect([chunk.length, chunk.buffer.byteLength]).toEqual([0, 0]);
});

test('leaves small chunks, and views of a part of some memory', () => {
  const small = Buffer.allocUnsafeSlow(FREED_CHUNK_MIN_BYTES - 1);
  const whole = Buffer.alloc(2 * FREED_CHUNK_MIN_BYTES, 'x');
  freeChunk(small);
  freeChunk(whole.subarray(FREED_CHUNK_MIN_BYTES));
  expect([small.length, whole.toString()]).toEqual([
    FREED_CHUNK_MIN_BYTES - 1,
    'x'.repeat(2 * FREED_CHUNK_MIN_BYTES),
  ]);
});

test('a stream frees the chunks of its socket when they are parsed, and not before', async () => {
  const content = Buffer.alloc(1_000_000, 'content ');
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect(port, '127.0.0.1');
  const [socket] = (await once(server, 'connection')) as [Socket];
  const pieces: Uint8Array[] = [];
  const copies: Uint8Array[] = [];
  const stream = new FrameStream(socket, Buffer.alloc(0), 0);
  stream.trustPeer();
  const complete = new Promise<void>((end) => {
    const add = (piece: Uint8Array) => {
      pieces.push(piece);
      copies.push(Buffer.from(piece));
    };
    stream.open({ message: () => {}, tooLarge: () => {}, begin: () => ({ add, isUtf8: () => true, end }) });
  });
  try {
    client.write(encodeMaskedFrame(WHOLE_BINARY, [content]).bytes);
    await complete;
    expect(Buffer.concat(copies).equals(content)).toBe(true);
    expect(pieces.some(({ buffer }) => buffer.byteLength === 0)).toBe(true);
  } finally {
    client.destroy();
    stream.destroy();
    server.close();
  }
});
