import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import {
  FULL_READ_BYTES,
  FULL_READS_PER_TURN_BYTES,
  FULL_TERMINAL_BYTES,
  MAX_WIDENED_PIPES,
  OUTPUT_READ_BYTES,
  TERMINAL_REFILL_POLLS,
} from '../../../../src/process/limits.ts';
import { SIGTERM } from '../../../../src/process/signals.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { pipeSource, type ReadCalls, terminalSource } from '../../../../src/process/spawn/output-source.ts';
import type { ChildIo, OutputSource } from '../../../../src/process/spawn/spawner.ts';
import { INPUT, NO_INPUT, openDescriptors, record, run, shell, TERMINAL } from '../../../support/children.ts';
import { processState } from '../../../support/machine.ts';
import { waitFor } from '../../../support/wait-for.ts';

const libc = loadLibc();
let spawner: NativeSpawner;
let descriptorsAtStart: number;

beforeAll(async () => {
  spawner = new NativeSpawner(libc);
  await run(spawner, shell('exit 0'));
  await run(spawner, shell('exit 0', TERMINAL));
  descriptorsAtStart = openDescriptors();
});

afterEach(() => expect(openDescriptors()).toBe(descriptorsAtStart));
afterAll(() => spawner.close());

const KINDS: [string, ChildIo][] = [
  ['pipe', NO_INPUT],
  ['pty', TERMINAL],
];

/** The output of `seq 1 last` on a terminal or a pipe. */
function numbers(last: number, io: ChildIo): string {
  const lineEnd = io.kind === 'pty' ? '\r\n' : '\n';
  return Array.from({ length: last }, (_, index) => `${index + 1}${lineEnd}`).join('');
}

describe.each(KINDS)('on a %s', (_, io) => {
  const stream = io.kind === 'pty' ? 'pty' : 'stdout';

  test('loses no output of 200 concurrent children that write and exit', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 200 }, () => run(spawner, shell('seq 1 5000; echo DONE', io))),
    );
    const expected = numbers(5000, io) + (io.kind === 'pty' ? 'DONE\r\n' : 'DONE\n');
    expect(outcomes.filter((outcome) => outcome[stream] !== expected)).toHaveLength(0);
  });

  // 11 kB: less than a terminal holds, more than one read of it returns.
  test('loses no output of a child that exits before the first read', async () => {
    const transcript = record(await spawner.spawn(shell('seq 1 2000', io)), { paused: true });
    await transcript.exited;
    expect(transcript.bytes(stream)).toBe(0);
    for (const source of transcript.child.outputs) source.resume();
    await transcript.ended;
    expect(transcript.text(stream)).toBe(numbers(2000, io));
    transcript.child.release();
  });

  test('neither loses output nor delivers it early when paused in every chunk and while draining', async () => {
    const child = await spawner.spawn(shell('seq 1 5000', io));
    const exited = new Promise((resolve) => child.onExit(resolve));
    let text = '';
    let paused = false;
    let early = 0;
    const ends = child.outputs.map((source) => {
      const ended = new Promise<void>((resolve) => {
        const onChunk = (bytes: Buffer) => {
          if (paused) early++;
          text += bytes;
          paused = true;
          source.pause();
          setImmediate(() => {
            paused = false;
            source.resume();
          });
        };
        source.listen(onChunk, resolve);
      });
      source.resume();
      return ended;
    });
    await Promise.all([...ends, exited]);
    expect(early).toBe(0);
    expect(text).toBe(numbers(5000, io));
    child.release();
  });

  test('stops reading on pause and blocks the child', async () => {
    const child = await spawner.spawn(shell('yes', io));
    const [source] = child.outputs as [OutputSource];
    let chunks = 0;
    source.listen(
      () => {
        chunks++;
        source.pause();
      },
      () => {},
    );
    source.resume();
    await waitFor('a chunk', () => chunks > 0);
    for (let turn = 0; turn < 50; turn++) await nextTurn();
    expect(chunks).toBe(1);
    source.resume();
    await waitFor('another chunk', () => chunks === 2);
    await child.killTree();
    child.release();
  });

  test('a drain that a pause has stopped is done when the source is destroyed', async () => {
    const transcript = record(await spawner.spawn(shell('echo text', io)), { paused: true });
    await transcript.exited;
    let drained = 0;
    for (const source of transcript.child.outputs) source.drainReadable(() => drained++);
    // Nothing is readable on stderr, which is known without reading.
    expect(drained).toBe(transcript.child.outputs.length - 1);
    for (const source of transcript.child.outputs) source.destroy();
    await transcript.ended;
    expect(drained).toBe(transcript.child.outputs.length);
    for (const source of transcript.child.outputs) source.drainReadable(() => drained++);
    expect(drained).toBe(2 * transcript.child.outputs.length);
    expect(transcript.bytes(stream)).toBe(0);
    transcript.child.release();
  });

  test('a drain can read what is there while the source is paused', async () => {
    const child = await spawner.spawn(shell('yes', io));
    const exited = new Promise((resolve) => child.onExit(resolve));
    const [source] = child.outputs as [OutputSource];
    let chunks = 0;
    const ended = new Promise<void>((resolve) => {
      const onChunk = () => {
        chunks++;
        source.pause();
      };
      source.listen(onChunk, resolve);
    });
    source.resume();
    let asleep = 0;
    await waitFor('the child to be blocked', () => {
      asleep = chunks === 1 && processState(child.pid) === 'S' ? asleep + 1 : 0;
      return asleep > 30;
    });
    child.signalGroup(SIGTERM);
    await exited;
    await new Promise<void>((resolve) => source.drainReadable(resolve, true));
    expect(chunks).toBeGreaterThan(1);
    for (const each of child.outputs) each.destroy();
    await ended;
    child.release();
  });

  test('reads nothing after a resume that is followed by a pause in the same turn', async () => {
    const transcript = record(await spawner.spawn(shell('echo text', io)), { paused: true });
    await transcript.exited;
    for (const source of transcript.child.outputs) {
      source.resume();
      source.pause();
    }
    for (let turn = 0; turn < 20; turn++) await nextTurn();
    expect(transcript.bytes(stream)).toBe(0);
    for (const source of transcript.child.outputs) source.resume();
    await transcript.ended;
    expect(transcript.text(stream)).toMatch(/^text/);
    transcript.child.release();
  });

  test('delivers all of 20 MB to a slow reader', async () => {
    const child = await spawner.spawn(shell('head -c 20000000 /dev/zero', io));
    let total = 0;
    const ends = child.outputs.map((source) => {
      const ended = new Promise<void>((resolve) => {
        source.listen((bytes) => {
          total += bytes.length;
          source.pause();
          setImmediate(() => source.resume());
        }, resolve);
      });
      source.resume();
      return ended;
    });
    await Promise.all(ends);
    expect(total).toBe(20_000_000);
    child.release();
  });

  test('ends the stream once on destroy, before or after the first read', async () => {
    for (const readFirst of [false, true]) {
      const child = await spawner.spawn(shell('yes', io));
      let chunks = 0;
      const ends = child.outputs.map(() => 0);
      for (const [index, source] of child.outputs.entries()) {
        source.listen(
          () => chunks++,
          () => ends[index]!++,
        );
        if (readFirst) source.resume();
      }
      if (readFirst) await waitFor('a chunk', () => chunks > 0);
      for (const source of child.outputs) source.destroy();
      const atDestroy = chunks;
      await waitFor('the ends', () => ends.every((count) => count === 1));
      await child.killTree();
      child.release();
      expect(chunks).toBe(atDestroy);
      expect(ends.every((count) => count === 1)).toBe(true);
    }
  });
});

test('keeps a pipe open while a grandchild holds it', async () => {
  // A shell gives background commands no stdin, so this one reads a duplicate. It waits for the end of the input.
  const script = 'exec 3<&0; (read line <&3; echo late) & echo first; exit 7';
  const transcript = record(await spawner.spawn(shell(script, INPUT)));
  expect(await transcript.exited).toEqual({ code: 7, signal: null });
  transcript.child.stdin!.end();
  await transcript.ended;
  expect(transcript.text('stdout')).toBe('first\nlate\n');
  transcript.child.release();
  const holder = record(await spawner.spawn(shell('sleep 1000 & echo $!')));
  await holder.exited;
  let ended = false;
  void holder.ended.then(() => {
    ended = true;
  });
  await waitFor('the output', () => holder.text('stdout') !== '');
  expect(ended).toBe(false);
  await holder.child.killTree();
  await holder.ended;
  holder.child.release();
});

test('does not mix the bytes of sources that share one read buffer', async () => {
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, index) => run(spawner, shell(`yes ${index} | head -c 300000`))),
  );
  for (const [index, { stdout }] of outcomes.entries()) {
    expect(stdout).toBe(`${index}\n`.repeat(300_000).slice(0, 300_000));
  }
});

test('can destroy a source without a listener', () => {
  const { readEnd, writeEnd } = libc.createPipe();
  pipeSource('stdout', readEnd, libc).destroy();
  closeSync(writeEnd);
});

test.each([
  ['that is refilled in time', 3, 4],
  ['that is not', Number.POSITIVE_INFINITY, TERMINAL_REFILL_POLLS],
])('waits a little after a full read of a terminal %s', async (_, emptyPolls, expectedPolls) => {
  const { master, slavePath } = libc.openTerminal(24, 80);
  const slave = openSync(slavePath, constants.O_RDWR | constants.O_NOCTTY);
  const pollsBeforeReads: number[] = [];
  let looks = 0;
  const calls: ReadCalls = {
    ...libc,
    // The kernel may take longer than the polls.
    readable: () => (looks++ < emptyPolls ? 0 : 1),
    readNow: (fd, buffer, offset) => {
      pollsBeforeReads.push(looks);
      looks = 0;
      return libc.readNow(fd, buffer, offset);
    },
  };
  const source = terminalSource(master, calls);
  let total = 0;
  const ended = new Promise<void>((resolve) => {
    source.listen((bytes) => {
      total += bytes.length;
    }, resolve);
  });
  writeSync(slave, 'x');
  source.resume();
  await waitFor('what was written first', () => total === 1);
  expect(pollsBeforeReads).toEqual([0]);

  source.pause();
  writeSync(slave, 'y'.repeat(FULL_TERMINAL_BYTES + 1_000));
  await waitFor('a full terminal', () => libc.readable(master) === FULL_TERMINAL_BYTES);
  pollsBeforeReads.length = 0;
  source.resume();
  await waitFor('the rest', () => total === FULL_TERMINAL_BYTES + 1_001);
  expect(pollsBeforeReads[0]).toBe(expectedPolls);
  closeSync(slave);
  source.destroy();
  await ended;
});

test('does not read a terminal again after its end, when another file may have its descriptor', async () => {
  const { master, slavePath } = libc.openTerminal(24, 80);
  const slave = openSync(slavePath, constants.O_RDWR | constants.O_NOCTTY);
  writeSync(slave, 'z'.repeat(FULL_TERMINAL_BYTES + 1_000));
  closeSync(slave);
  // Reads nothing ahead, so that the rest is still there when the end is reported.
  const source = terminalSource(master, { ...libc, readNow: () => 0 });
  let text = '';
  const ended = new Promise<void>((resolve) => {
    source.listen((bytes) => {
      if (text.length <= FULL_TERMINAL_BYTES && text.length + bytes.length > FULL_TERMINAL_BYTES)
        source.pause();
      text += bytes;
    }, resolve);
  });
  source.resume();
  await waitFor('the rest', () => text.length > FULL_TERMINAL_BYTES);
  source.resume();
  const another = nextTurn().then(() => libc.createPipe());
  source.pause();
  source.resume();
  const { readEnd, writeEnd } = await another;
  writeSync(writeEnd, 'of another');
  closeSync(writeEnd);
  await ended;
  expect(readEnd).toBe(master);
  expect(libc.readable(readEnd)).toBe('of another'.length);
  expect(text).toBe('z'.repeat(FULL_TERMINAL_BYTES + 1_000));
  closeSync(readEnd);
});

describe('a drain of a stream that is refilled after every read', () => {
  /** Reads never find the stream empty. */
  const refilled: ReadCalls = { ...libc, readNow: (_fd, buffer, offset) => buffer.length - offset };

  test.each([
    ['a pipe', 1, 1],
    ['a pipe', OUTPUT_READ_BYTES, 1],
    ['a pipe', OUTPUT_READ_BYTES + 1, 2],
    ['a terminal', 1, 1],
  ])('ends on %s with %s readable bytes after %s full reads', async (kind, readable, reads) => {
    const calls = { ...refilled, readable: () => readable };
    const { readEnd, writeEnd } = libc.createPipe();
    const { master, slavePath } = libc.openTerminal(24, 80);
    const slave = openSync(slavePath, constants.O_RDWR | constants.O_NOCTTY);
    const source = kind === 'a pipe' ? pipeSource('stdout', readEnd, calls) : terminalSource(master, calls);
    const sizes: number[] = [];
    const ended = new Promise<void>((resolve) => source.listen((bytes) => sizes.push(bytes.length), resolve));
    source.resume();
    let drained = false;
    source.drainReadable(() => {
      drained = true;
    });
    expect([drained, sizes]).toEqual([true, Array(reads).fill(OUTPUT_READ_BYTES)]);
    source.destroy();
    await ended;
    closeSync(kind === 'a pipe' ? master : readEnd);
    closeSync(writeEnd);
    closeSync(slave);
  });
});

describe('the pipe of a program that floods it', () => {
  let widened = 0;
  const calls: ReadCalls = {
    ...libc,
    widenPipe: (fd, bytes) => {
      widened++;
      libc.widenPipe(fd, bytes);
    },
  };

  /** A pipe from which several full buffers were read in a row. Returns a function that closes it. */
  async function flooded(): Promise<() => Promise<void>> {
    const { readEnd, writeEnd } = libc.createPipe();
    const source = pipeSource('stdout', readEnd, calls);
    let received = 0;
    let ended = false;
    source.listen(
      (bytes) => {
        received += bytes.length;
      },
      () => {
        ended = true;
      },
    );
    source.resume();
    for (let full = 1; full <= FULL_READS_PER_TURN_BYTES / FULL_READ_BYTES; full++) {
      writeSync(writeEnd, Buffer.alloc(FULL_READ_BYTES));
      await waitFor('the bytes', () => received === full * FULL_READ_BYTES);
    }
    return async () => {
      closeSync(writeEnd);
      await waitFor('the end', () => ended);
    };
  }

  test('is widened, unless as many as allowed are wide already', async () => {
    const open: (() => Promise<void>)[] = [];
    for (let pipe = 0; pipe < MAX_WIDENED_PIPES + 2; pipe++) open.push(await flooded());
    expect(widened).toBe(MAX_WIDENED_PIPES);
    await open.shift()!();
    open.push(await flooded(), await flooded());
    expect(widened).toBe(MAX_WIDENED_PIPES + 1);
    for (const close of open) await close();
  });
});
