import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OUTPUT_EVENT_OVERHEAD_BYTES } from '../../../../src/protocol/limits.ts';
import { OUTPUT_WINDOW_MARKS } from '../../../../src/server/limits.ts';
import { OutputWindow } from '../../../../src/server/sessions/output-window.ts';

test('is full when the unused output reaches the window', () => {
  const window = new OutputWindow(2 * (100 + OUTPUT_EVENT_OVERHEAD_BYTES));
  window.output(1, 100);
  expect(window.full).toBe(false);
  window.output(2, 100);
  expect(window.full).toBe(true);
  window.consumed(1);
  expect(window.full).toBe(false);
  window.output(3, 100);
  expect(window.full).toBe(true);
  window.consumed(3);
  expect(window.full).toBe(false);
});

test('lets one event exceed it', () => {
  const window = new OutputWindow(1);
  expect(window.full).toBe(false);
  window.output(1, 1_000_000);
  expect(window.full).toBe(true);
  window.consumed(1);
  expect(window.full).toBe(false);
});

test('counts tiny events for more than their bytes', () => {
  const window = new OutputWindow(10 * OUTPUT_EVENT_OVERHEAD_BYTES);
  for (let seq = 1; seq <= 9; seq++) window.output(seq, 1);
  expect(window.full).toBe(false);
  window.output(10, 1);
  expect(window.full).toBe(true);
});

test('ignores reports that are repeated, late, or about no event', () => {
  const window = new OutputWindow(1_000);
  window.consumed(5);
  for (let seq = 1; seq <= 3; seq++) window.output(seq, 1_000);
  window.consumed(2);
  for (const seq of [0, 1, 2]) window.consumed(seq);
  expect(window.full).toBe(true);
  window.consumed(2 ** 53);
  expect(window.full).toBe(false);
  window.output(4, 1_000);
  expect(window.full).toBe(true);
});

test('rounds a report by less than a small part of the window', () => {
  const windows = fc.integer({ min: 1, max: 2_000_000 });
  const sizes = fc.array(fc.integer({ min: 1, max: 65_536 }), { minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(windows, sizes, fc.nat(20), (windowBytes, chunks, lag) => {
      const window = new OutputWindow(windowBytes);
      let used = 0;
      for (let seq = 1; seq <= chunks.length; seq++) {
        window.output(seq, chunks[seq - 1]!);
        if (!window.full) continue;
        used = Math.max(used, seq - lag);
        window.consumed(used);
        const unused = chunks
          .slice(used, seq)
          .reduce((sum, bytes) => sum + bytes + OUTPUT_EVENT_OVERHEAD_BYTES, 0);
        if (unused >= windowBytes) expect(window.full).toBe(true);
        if (unused < windowBytes * (1 - 2 / OUTPUT_WINDOW_MARKS)) expect(window.full).toBe(false);
        used = seq;
        window.consumed(used);
        expect(window.full).toBe(false);
      }
    }),
  );
});
