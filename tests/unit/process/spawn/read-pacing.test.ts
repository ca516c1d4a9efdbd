import { describe, expect, test } from 'vitest';
import {
  FLOOD_GAP_MS,
  FLOOD_SMALL_READS,
  FULL_READ_BYTES,
  FULL_READS_PER_TURN_BYTES,
  OUTPUT_READ_BYTES,
  SMALL_READ_BYTES,
} from '../../../../src/process/limits.ts';
import { ReadPacing } from '../../../../src/process/spawn/read-pacing.ts';

function pacingAt(): { pacing: ReadPacing; pass(milliseconds: number): void } {
  let now = 1000;
  return {
    pacing: new ReadPacing(() => now),
    pass: (milliseconds) => {
      now += milliseconds;
    },
  };
}

const times = (count: number, each: () => unknown) => Array.from({ length: count }, each);

test('a large read whose delivery is slow lets other streams be read', () => {
  const { pacing, pass } = pacingAt();
  const beganAt = pacing.begin();
  expect(pacing.afterRead(OUTPUT_READ_BYTES, beganAt)).toBe('continue');
  pass(2);
  expect(pacing.afterRead(OUTPUT_READ_BYTES, beganAt)).toBe('yield');
  expect(pacing.afterRead(10, beganAt)).toBe('continue');
});

describe('small reads', () => {
  test('pause the reader in quick succession, but not the first few', () => {
    const { pacing } = pacingAt();
    pacing.afterRead(10);
    expect(times(FLOOD_SMALL_READS, () => pacing.afterRead(10))).toEqual(
      times(FLOOD_SMALL_READS, () => 'continue'),
    );
    expect(pacing.afterRead(10)).toBe('pause');
    expect(pacing.afterRead(10)).toBe('pause');
  });

  test('never pause the reader when they are far apart', () => {
    const { pacing, pass } = pacingAt();
    for (let piece = 0; piece < 100; piece++) {
      pass(FLOOD_GAP_MS);
      expect(pacing.afterRead(10)).toBe('continue');
    }
  });

  test('are delivered immediately after expectReply', () => {
    const { pacing } = pacingAt();
    times(FLOOD_SMALL_READS + 5, () => pacing.afterRead(10));
    pacing.expectReply();
    expect(pacing.afterRead(10)).toBe('continue');
  });
});

describe('large reads', () => {
  test.each([FULL_READ_BYTES, OUTPUT_READ_BYTES])(
    'yield to other streams after a few of %i bytes',
    (bytes) => {
      const { pacing } = pacingAt();
      const before = FULL_READS_PER_TURN_BYTES / bytes - 1;
      for (let turn = 0; turn < 3; turn++) {
        expect(times(before, () => pacing.afterRead(bytes))).not.toContain('yield');
        expect(pacing.afterRead(bytes)).toBe('yield');
      }
    },
  );

  test('do not yield or pause when they empty the pipe', () => {
    const { pacing } = pacingAt();
    expect(times(100, () => pacing.afterRead(SMALL_READ_BYTES + 1))).toEqual(times(100, () => 'continue'));
  });
});
