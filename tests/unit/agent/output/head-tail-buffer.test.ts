import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HeadTailBuffer } from '../../../../src/agent/output/head-tail-buffer.ts';

function filled(capacity: number, ...pieces: readonly string[]): HeadTailBuffer {
  const buffer = new HeadTailBuffer(capacity);
  for (const piece of pieces) buffer.push(Buffer.from(piece));
  return buffer;
}

function content(buffer: HeadTailBuffer) {
  return {
    head: Buffer.from(buffer.head).toString('latin1'),
    omitted: buffer.omittedBytes,
    tail: Buffer.from(buffer.tail).toString('latin1'),
    total: buffer.totalBytes,
  };
}

/** The expected content, computed from all bytes. */
function expected(capacity: number, bytes: Uint8Array) {
  const headLength = Math.min(bytes.length, Math.floor(capacity / 2));
  const tailLength = Math.min(bytes.length - headLength, capacity - Math.floor(capacity / 2));
  const text = Buffer.from(bytes).toString('latin1');
  return {
    head: text.slice(0, headLength),
    omitted: bytes.length - headLength - tailLength,
    tail: text.slice(text.length - tailLength),
    total: bytes.length,
  };
}

const piecesOfBytes = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 20 });
const capacities = fc.integer({ min: 0, max: 60 });

describe('HeadTailBuffer', () => {
  test('keeps everything up to its capacity', () => {
    expect(content(filled(10, '0123456789'))).toEqual({
      head: '01234',
      omitted: 0,
      tail: '56789',
      total: 10,
    });
  });

  test('keeps the first and the last bytes above it', () => {
    expect(content(filled(10, '0123456789', 'ab'))).toMatchObject({
      head: '01234',
      omitted: 2,
      tail: '789ab',
    });
    expect(content(filled(10, '0123456789', 'ab', 'ABCDEFGHIJK'))).toMatchObject({
      head: '01234',
      tail: 'GHIJK',
    });
  });

  test('keeps nothing with capacity 0, and the last byte with capacity 1', () => {
    expect(content(filled(0, 'abc'))).toEqual({ head: '', omitted: 3, tail: '', total: 3 });
    expect(content(filled(1, 'abc', 'd'))).toEqual({ head: '', omitted: 3, tail: 'd', total: 4 });
  });

  test('renders a line for omitted bytes only', () => {
    expect(Buffer.from(filled(10, '0123456789').render()).toString()).toBe('0123456789');
    expect(Buffer.from(filled(10, '0123456789ab').render()).toString()).toBe(
      '01234\n... 2 bytes omitted ...\n789ab',
    );
  });

  test('copies the bytes', () => {
    const bytes = Buffer.from('abcd');
    const buffer = new HeadTailBuffer(4);
    buffer.push(bytes);
    bytes.fill('x');
    expect(content(buffer)).toMatchObject({ head: 'ab', tail: 'cd' });
  });

  test('take returns the content and empties the buffer', () => {
    const buffer = filled(10, '0123456789ab');
    const taken = buffer.take();
    expect(content(taken)).toEqual({ head: '01234', omitted: 2, tail: '789ab', total: 12 });
    expect(content(buffer)).toEqual({ head: '', omitted: 0, tail: '', total: 0 });
    buffer.push(Buffer.from('new'));
    expect(content(taken)).toMatchObject({ total: 12 });
    expect(content(buffer)).toMatchObject({ head: 'new', total: 3 });
  });

  test('has the same content for every chunking', () => {
    fc.assert(
      fc.property(capacities, piecesOfBytes, (capacity, pieces) => {
        const buffer = new HeadTailBuffer(capacity);
        for (const piece of pieces) buffer.push(piece);
        expect(content(buffer)).toEqual(expected(capacity, Buffer.concat(pieces)));
      }),
    );
  });

  test('append equals pushing the whole stream of the other buffer', () => {
    fc.assert(
      fc.property(
        capacities,
        fc.nat(30),
        piecesOfBytes,
        piecesOfBytes,
        piecesOfBytes,
        (capacity, more, mine, theirs, later) => {
          const buffer = new HeadTailBuffer(capacity);
          const other = new HeadTailBuffer(capacity + more);
          for (const piece of mine) buffer.push(piece);
          for (const piece of theirs) other.push(piece);
          buffer.append(other);
          for (const piece of later) buffer.push(piece);
          expect(content(buffer)).toEqual(expected(capacity, Buffer.concat([...mine, ...theirs, ...later])));
        },
      ),
    );
  });

  test('rejects a smaller buffer, which may lack bytes', () => {
    expect(() => new HeadTailBuffer(10).append(new HeadTailBuffer(9))).toThrow(RangeError);
  });

  test('single bytes use no more memory than the capacity', () => {
    const buffer = new HeadTailBuffer(1000);
    const byte = Uint8Array.of(7);
    for (let count = 0; count < 100_000; count++) buffer.push(byte);
    expect(buffer.head.length + buffer.tail.length).toBe(1000);
    expect(buffer.omittedBytes).toBe(99_000);
  });
});
