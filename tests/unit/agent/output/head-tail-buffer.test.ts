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

/** What the rule says of all bytes at once. */
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

  test('keeps the first and the newest bytes beyond it', () => {
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

  test('a capacity of nothing keeps nothing, and one of one keeps the last byte', () => {
    expect(content(filled(0, 'abc'))).toEqual({ head: '', omitted: 3, tail: '', total: 3 });
    expect(content(filled(1, 'abc', 'd'))).toEqual({ head: '', omitted: 3, tail: 'd', total: 4 });
  });

  test('renders a line in the place of what is missing, and only then', () => {
    expect(Buffer.from(filled(10, '0123456789').render()).toString()).toBe('0123456789');
    expect(Buffer.from(filled(10, '0123456789ab').render()).toString()).toBe(
      '01234\n... 2 bytes omitted ...\n789ab',
    );
  });

  test('does not keep what it was given', () => {
    const bytes = Buffer.from('abcd');
    const buffer = new HeadTailBuffer(4);
    buffer.push(bytes);
    bytes.fill('x');
    expect(content(buffer)).toMatchObject({ head: 'ab', tail: 'cd' });
  });

  test('take hands over everything and leaves nothing', () => {
    const buffer = filled(10, '0123456789ab');
    const taken = buffer.take();
    expect(content(taken)).toEqual({ head: '01234', omitted: 2, tail: '789ab', total: 12 });
    expect(content(buffer)).toEqual({ head: '', omitted: 0, tail: '', total: 0 });
    buffer.push(Buffer.from('new'));
    expect(content(taken)).toMatchObject({ total: 12 });
    expect(content(buffer)).toMatchObject({ head: 'new', total: 3 });
  });

  test('however the bytes come, it holds what the rule says', () => {
    fc.assert(
      fc.property(capacities, piecesOfBytes, (capacity, pieces) => {
        const buffer = new HeadTailBuffer(capacity);
        for (const piece of pieces) buffer.push(piece);
        expect(content(buffer)).toEqual(expected(capacity, Buffer.concat(pieces)));
      }),
    );
  });

  test('appending a buffer is pushing what it has seen, whatever it has omitted', () => {
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

  test('refuses a smaller buffer, which may lack bytes', () => {
    expect(() => new HeadTailBuffer(10).append(new HeadTailBuffer(9))).toThrow(RangeError);
  });

  test('single bytes take no more memory than the capacity', () => {
    const buffer = new HeadTailBuffer(1000);
    const byte = Uint8Array.of(7);
    for (let count = 0; count < 100_000; count++) buffer.push(byte);
    expect(buffer.head.length + buffer.tail.length).toBe(1000);
    expect(buffer.omittedBytes).toBe(99_000);
  });
});
