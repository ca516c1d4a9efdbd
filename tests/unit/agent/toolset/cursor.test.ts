import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Call } from '../../../../src/agent/toolset/call.ts';
import { collect, type KnownState } from '../../../../src/agent/toolset/process/collect.ts';
import { cursorOf, positionOf, START } from '../../../../src/agent/toolset/process/cursor.ts';
import type { ExecProcess, OutputStream, ProcessEvent } from '../../../../src/environment/index.ts';

const CALL = {
  target: { name: 'box', environment: {} },
  signal: new AbortController().signal,
  onProgress: undefined,
  startedAt: 0,
} as unknown as Call;

const REF = 'k3f9a2b7';

interface Chunk {
  readonly stream: OutputStream;
  readonly bytes: Buffer;
}

/** A process whose events are known: of a chunk that was trimmed only the end, and of evicted ones nothing. */
class Recorded {
  readonly #chunks: readonly Chunk[];
  readonly #keptBytes: number;

  constructor(chunks: readonly Chunk[], keptBytes = Number.POSITIVE_INFINITY) {
    this.#chunks = chunks;
    this.#keptBytes = keptBytes;
  }

  /** The state after so many chunks; after all of them the process is closed. */
  stateAfter(count: number): KnownState {
    const isClosed = count === this.#chunks.length;
    const outputBytes = this.#chunks.slice(0, count).reduce((sum, { bytes }) => sum + bytes.length, 0);
    return { nextSeq: count + 1 + (isClosed ? 2 : 0), outputBytes, state: isClosed ? 'closed' : 'running' };
  }

  processAfter(count: number, afterSeq: number): ExecProcess {
    const events = this.#eventsAfter(count, afterSeq);
    const exited = count === this.#chunks.length;
    const state = {
      exitCode: exited ? 0 : null,
      signal: null,
      sandboxDenied: false,
      reason: null,
      closed: false,
    };
    return { events: () => events, state } as unknown as ExecProcess;
  }

  async *#eventsAfter(count: number, afterSeq: number): AsyncGenerator<ProcessEvent> {
    let lost = 0;
    for (const [index, { stream, bytes }] of this.#chunks.slice(0, count).entries()) {
      const seq = index + 1;
      const later = this.#chunks.slice(index + 1, count).reduce((sum, chunk) => sum + chunk.bytes.length, 0);
      const kept = bytes.subarray(Math.max(0, bytes.length - Math.max(0, this.#keptBytes - later)));
      if (seq <= afterSeq) continue;
      if (kept.length === 0) {
        lost = seq;
        continue;
      }
      if (lost > 0)
        yield { type: 'lost', fromSeq: afterSeq + 1, toSeq: lost, bytes: null, streamBytes: null };
      lost = 0;
      yield { type: 'output', seq, stream, bytes: kept };
    }
    if (count < this.#chunks.length) return;
    yield { type: 'exited', seq: count + 1, exitCode: 0, sandboxDenied: false };
    yield { type: 'closed', seq: count + 2 };
  }
}

/** Reads a process with cursors that pass as text from call to call, while it writes. */
async function readAll(
  chunks: readonly Chunk[],
  steps: readonly number[],
  pageBytes: number,
  keptBytes?: number,
) {
  const recorded = new Recorded(chunks, keptBytes);
  const parts: Buffer[] = [];
  let [cursor, lost, available] = ['0', 0, 0];
  for (let turn = 0; turn < 2000; turn++) {
    available = Math.min(chunks.length, available + (steps[turn] ?? 1));
    const from = positionOf(cursor, REF);
    const known = recorded.stateAfter(available);
    const process = recorded.processAfter(available, from.seq);
    const { output, hasMore, end } = await collect(process, known, CALL, {
      from,
      waitMs: 1000,
      pageBytes,
    });
    expect(output.omittedBytes).toBe(0);
    parts.push(Buffer.from(output.head));
    lost += output.lostBytes ?? 0;
    cursor = cursorOf(output.next, REF);
    if (end === 'closed' && !hasMore) return { text: Buffer.concat(parts), parts, lost };
  }
  throw new Error('the output did not end');
}

const text = fc.string({ unit: 'grapheme', maxLength: 40 });
const colored = fc.array(fc.oneof(text, fc.constantFrom('\x1b[31m', '\x1b]0;title\x07', '\n')), {
  minLength: 1,
  maxLength: 20,
});
/** A text as chunks that are cut anywhere, also inside of characters and sequences. */
const cuts = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 10 });
const steps = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 50 });

function cut(bytes: Buffer, sizes: readonly number[]): Chunk[] {
  const chunks: Chunk[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length]!;
    chunks.push({ stream: 'stdout', bytes: bytes.subarray(at, at + size) });
    at += size;
  }
  return chunks;
}

describe('cursors', () => {
  test('pass through their text form', () => {
    const position = fc.record({
      seq: fc.nat(),
      bytes: fc.option(fc.nat({ max: 2 ** 40 })),
      offset: fc.nat({ max: 1000 }),
      length: fc.nat({ max: 1000 }),
    });
    fc.assert(
      fc.property(position, ({ seq, bytes, offset, length }) => {
        const isInside = offset > 0 && offset < length && (bytes ?? offset) >= offset;
        fc.pre(seq > 0);
        const valid = isInside ? { seq, bytes, offset, length } : { seq, bytes, offset: 0, length: 0 };
        expect(positionOf(cursorOf(valid, REF), REF)).toEqual(valid);
      }),
    );
  });

  test.each(['', 'x', '-1', '1.2.3', '1.2.5.3', '1.2.0.4.5', '1e3', '99999999999999999999'])(
    '%j is not a cursor, also with a process',
    (cursor) => {
      expect(() => positionOf(cursor, REF)).toThrow('is not a cursor');
      expect(() => positionOf(`k3f9-${cursor}`, REF)).toThrow('is not a cursor');
    },
  );

  test('belong to a process, unless they are its beginning', () => {
    const cursor = cursorOf({ seq: 1, bytes: 6, offset: 0, length: 0 }, REF);
    expect(cursor).toBe('k3f9-1.6');
    expect(positionOf(` ${cursor}\n`, REF)).toMatchObject({ seq: 1, bytes: 6 });
    expect(() => positionOf(cursor, 'p1q2r3s4')).toThrow('belongs to another process than p1q2r3s4');
    expect(() => positionOf('1.6', REF)).toThrow('"1.6" does not say to which process it belongs');
    expect(cursorOf(START, REF)).toBe('0');
    for (const start of ['0', '0.0']) expect(positionOf(start, 'p1q2r3s4')).toEqual(START);
  });

  test('return all bytes once, in pages of any size, while the program writes', async () => {
    await fc.assert(
      fc.asyncProperty(
        colored,
        cuts,
        steps,
        fc.integer({ min: 8, max: 200 }),
        async (parts, sizes, turns, pageBytes) => {
          const all = Buffer.from(parts.join(''));
          const read = await readAll(cut(all, sizes), turns, pageBytes);
          expect(read.text).toEqual(all);
          expect(read.lost).toBe(0);
        },
      ),
      { numRuns: 300 },
    );
  });

  test('return pages that are longer than the output that a call keeps otherwise', async () => {
    const all = Buffer.alloc(5_000_000, 'line\n');
    const read = await readAll(cut(all, [65_536]), [100], 3_000_000);
    expect(read.text.equals(all)).toBe(true);
    expect(read.parts.map(({ length }) => length)).toEqual([3_000_000, 2_000_000]);
  });

  test('split no character and no escape sequence that is in one chunk', async () => {
    await fc.assert(
      fc.asyncProperty(colored, steps, async (parts, turns) => {
        const chunks = parts
          .map((part) => ({ stream: 'pty' as const, bytes: Buffer.from(part) }))
          .filter(({ bytes }) => bytes.length > 0);
        const { parts: pages } = await readAll(chunks, turns, 1000);
        expect(pages.map(String).join('')).toBe(parts.join(''));
        for (const page of pages) expect(page.toString()).not.toMatch(/\x1b(?:\[\d*)?$/);
      }),
      { numRuns: 200 },
    );
  });

  test('count what the server no longer has: returned and lost bytes are all bytes', async () => {
    await fc.assert(
      fc.asyncProperty(
        colored,
        cuts,
        steps,
        fc.integer({ min: 1, max: 60 }),
        async (parts, sizes, turns, kept) => {
          const all = Buffer.from(parts.join(''));
          const read = await readAll(cut(all, sizes), turns, 10_000, kept);
          expect(read.text.length + read.lost).toBe(all.length);
        },
      ),
      { numRuns: 300 },
    );
  });
});
