import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ManagedProcess } from '../../../src/process/managed-process.ts';
import { createSpawner } from '../../../src/process/spawn/create-spawner.ts';
import type { ChildIo, Spawner, StreamName } from '../../../src/process/spawn/spawner.ts';
import { NO_INPUT, shell, TERMINAL } from '../../support/children.ts';
import { waitFor } from '../../support/wait-for.ts';

const RETENTION = { headBytes: 0, tailBytes: 1_000, maxChunks: 1_000 };

const KINDS: [string, { native: boolean; io: ChildIo }][] = [
  ['a native pipe', { native: true, io: NO_INPUT }],
  ['a native terminal', { native: true, io: TERMINAL }],
  ['a pipe of child_process', { native: false, io: NO_INPUT }],
];

/** Output before and after the exit, by stream. */
interface Events {
  readonly before: Map<StreamName, string>;
  readonly after: Map<StreamName, string>;
  exited: boolean;
  closed: boolean;
}

describe.each(KINDS)('on %s', (_name, { native, io }) => {
  let spawner: Spawner;

  beforeAll(async () => {
    spawner = await createSpawner({ native });
  });
  afterAll(() => spawner.close());

  const start = async (script: string, { paused = false } = {}) => {
    const events: Events = { before: new Map(), after: new Map(), exited: false, closed: false };
    const child = await spawner.spawn(shell(script, io));
    const reaped = new Promise((resolve) => child.onExit(resolve));
    const process = new ManagedProcess(child, RETENTION, {
      output: (_seq, stream, bytes) => {
        const part = events.exited ? events.after : events.before;
        part.set(stream, (part.get(stream) ?? '') + bytes);
      },
      exited: () => {
        events.exited = true;
      },
      closed: () => {
        events.closed = true;
      },
    });
    onTestFinished(() => process.kill());
    process.begin(paused);
    return { process, events, reaped };
  };

  /** Everything that the program wrote before its exit, as the terminal shows it. */
  const all = ({ before }: Events) => [...before.values()].join('').replaceAll('\r', '');

  test('what a program wrote comes before its exit', async () => {
    for (let round = 0; round < 10; round++) {
      const started = await Promise.all(
        Array.from({ length: 10 }, () => start('printf out; printf err >&2; exit 3')),
      );
      for (const { process, events } of started) {
        await process.wait('closed', null);
        expect(events.after.size).toBe(0);
        expect(all(events)).toBe('outerr');
        expect(process.exitCode).toBe(3);
      }
    }
  });

  test('also when it filled the stream', async () => {
    const { process, events } = await start('seq 1 12000');
    await process.wait('closed', null);
    expect(events.after.size).toBe(0);
    expect(all(events)).toMatch(/^1\n2\n.*\n11999\n12000\n$/s);
  });

  test('also when nothing was read until the exit', async () => {
    const { process, events, reaped } = await start('seq 1 1500', { paused: true });
    await reaped;
    process.setPaused(false);
    await process.wait('closed', null);
    expect(events.after.size).toBe(0);
    expect(all(events)).toMatch(/^1\n2\n.*\n1499\n1500\n$/s);
  });

  test('also when reading is paused after each chunk', async () => {
    const { process, events, reaped } = await start('seq 1 1500', { paused: true });
    await reaped;
    while (!events.closed) {
      process.setPaused(false);
      await new Promise(setImmediate);
      process.setPaused(true);
    }
    expect(events.after.size).toBe(0);
    expect(all(events)).toMatch(/^1\n2\n.*\n1499\n1500\n$/s);
  });

  test('a process that keeps the stream open does not delay the exit', async () => {
    const { process, events } = await start('trap "" HUP; sleep 300 & echo started; exit 4');
    await process.wait('exited', null);
    expect([process.exitCode, process.closed]).toEqual([4, false]);
    expect(all(events)).toBe('started\n');
  });

  test('a process that never stops writing does not delay the exit without end', async () => {
    const { process, events } = await start('trap "" HUP; yes & echo started; exit 5');
    await process.wait('exited', null);
    expect([process.exitCode, process.closed]).toEqual([5, false]);
    expect(all(events)).toContain('started\n');
    // The kernel hangs up a terminal when the leader of its session exits.
    if (io.kind === 'pipe') await waitFor('output after the exit', () => events.after.size > 0);
  });
});
