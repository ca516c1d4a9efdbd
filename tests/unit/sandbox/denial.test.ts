import { describe, expect, test } from 'vitest';
import type { StreamName } from '../../../src/process/spawn/spawner.ts';
import { DenialScanner } from '../../../src/sandbox/denial.ts';

const MEBIBYTE = 1024 * 1024;

function scanned(...pieces: (string | readonly [StreamName, string])[]): DenialScanner {
  const scanner = new DenialScanner();
  for (const piece of pieces) {
    const [stream, text] = typeof piece === 'string' ? (['stderr', piece] as const) : piece;
    scanner.output(stream, Buffer.from(text));
  }
  return scanner;
}

const PHRASES = [
  'operation not permitted',
  'permission denied',
  'read-only file system',
  'seccomp',
  'sandbox',
  'landlock',
  'failed to write file',
];

describe('a failure counts as denied', () => {
  test.each(PHRASES)('for output with "%s" in any case, with any failing exit code', (phrase) => {
    for (const text of [phrase, phrase.toUpperCase(), `x${phrase}x`, `ä\xff ${phrase}\n`]) {
      for (const code of [1, 2, 126, 127, 137, 255]) expect(scanned(text).denied(code)).toBe(true);
      expect(scanned(text).denied(0)).toBe(false);
    }
  });

  test.each(['stdout', 'stderr', 'pty'] as const)('for output on %s', (stream) => {
    expect(scanned([stream, 'Permission denied']).denied(1)).toBe(true);
  });

  test.each(PHRASES)('for "%s" split into chunks of any size', (phrase) => {
    for (let cut = 1; cut < phrase.length; cut++) {
      expect(scanned(phrase.slice(0, cut), phrase.slice(cut)).denied(1)).toBe(true);
      expect(scanned(`${'.'.repeat(99)}${phrase.slice(0, cut)}`, `${phrase.slice(cut)}...`).denied(1)).toBe(
        true,
      );
    }
    expect(scanned(...phrase).denied(1)).toBe(true);
  });

  test('for a phrase between whose chunks other streams write', () => {
    expect(scanned(['stderr', 'permission '], ['stdout', 'sand'], ['stderr', 'denied']).denied(1)).toBe(true);
  });

  test('for the exit code of a forbidden system call', () => {
    expect(scanned().denied(159)).toBe(true);
    expect(scanned('hello').denied(159)).toBe(true);
  });
});

describe('a failure does not count as denied', () => {
  test.each([
    'Invalid cross-device link',
    'File exists',
    'Directory nonexistent',
    'bwrap: Creating new namespace failed',
    'permission  denied',
    'sand box',
    'permissiondenied',
    '',
  ])('for "%s"', (text) => expect(scanned(text).denied(1)).toBe(false));

  test.each([1, 2, 127, 137, 143])('for exit code %i alone', (code) =>
    expect(scanned().denied(code)).toBe(false),
  );

  test('for a phrase that is spread over two streams', () => {
    expect(scanned(['stderr', 'sand'], ['stdout', 'box']).denied(1)).toBe(false);
  });

  test('for parts of a phrase with other text in between', () => {
    expect(scanned('sand', '-', 'box').denied(1)).toBe(false);
  });
});

describe('only the last megabyte counts, of all streams together', () => {
  test.each([
    ['within it', MEBIBYTE - 7, true],
    ['beyond it', MEBIBYTE - 6, false],
  ])('a phrase %s', (_, after, expected) => {
    expect(scanned('sandbox', 'x'.repeat(after)).denied(1)).toBe(expected);
    expect(scanned('sandbox', ['stdout', 'x'.repeat(after)]).denied(1)).toBe(expected);
  });

  test('a later phrase counts where an earlier one does not', () => {
    expect(scanned('sandbox', 'x'.repeat(2 * MEBIBYTE), 'seccomp', 'x'.repeat(1000)).denied(1)).toBe(true);
  });

  test('a chunk of output counts as a whole or not at all', () => {
    const piece = `${'y'.repeat(60_000)}sandbox`;
    expect(scanned(piece, 'x'.repeat(MEBIBYTE - piece.length)).denied(1)).toBe(true);
    expect(scanned(piece, 'x'.repeat(MEBIBYTE - piece.length + 1)).denied(1)).toBe(false);
    const [head, tail] = ['y'.repeat(60_000).concat('sand'), 'box'];
    const free = MEBIBYTE - head.length - tail.length;
    expect(scanned(head, tail, 'x'.repeat(free)).denied(1)).toBe(true);
    expect(scanned(head, tail, 'x'.repeat(free + 1)).denied(1)).toBe(false);
  });
});
