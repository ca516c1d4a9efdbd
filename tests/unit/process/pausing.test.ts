import { describe, expect, onTestFinished, test } from 'vitest';
import { ManagedProcess } from '../../../src/process/managed-process.ts';
import { NO_RUN_LIMITS, type RunLimits } from '../../../src/process/resources/resource-limits.ts';
import { FakeChild } from './fake-child.ts';

function start({ paused = false, limits = NO_RUN_LIMITS }: { paused?: boolean; limits?: RunLimits } = {}) {
  const child = new FakeChild();
  const events: string[] = [];
  const process = new ManagedProcess(
    child,
    { headBytes: 0, tailBytes: 1_000, maxChunks: 1_000 },
    {
      output: (seq, stream, bytes) => events.push(`${seq} ${stream} ${bytes}`),
      exited: (seq, exitCode) => events.push(`${seq} exited ${exitCode}`),
      closed: (seq) => events.push(`${seq} closed`),
    },
    limits,
  );
  process.begin(paused);
  return { child, process, events };
}

describe('a paused process', () => {
  test('is not read, and loses nothing', () => {
    const { child, process, events } = start({ paused: true });
    child.stdout.write('one');
    expect(events).toEqual([]);
    process.setPaused(false);
    process.setPaused(true);
    child.stdout.write('two');
    child.endStreams();
    child.exit(0);
    expect(events).toEqual(['1 stdout one']);
    process.setPaused(false);
    expect(events).toEqual(['1 stdout one', '2 stdout two', '3 exited 0', '4 closed']);
  });

  test('reports the exit when nothing is readable', () => {
    const { child, events } = start({ paused: true });
    child.exit(0);
    expect(events).toEqual(['1 exited 0']);
  });
});

describe('a held process', () => {
  test('is not read, and its exit waits behind the output', () => {
    const { child, process, events } = start();
    process.setHeld(true);
    child.stdout.write('one');
    child.finish(3);
    expect(events).toEqual([]);
    process.setHeld(false);
    expect(events).toEqual(['1 stdout one', '2 exited 3', '3 closed']);
  });

  test('is read when neither the client nor its connection makes it wait', () => {
    const { child, process, events } = start();
    process.setHeld(true);
    process.setPaused(true);
    child.stdout.write('one');
    process.setHeld(false);
    expect(events).toEqual([]);
    process.setHeld(true);
    process.setPaused(false);
    expect(events).toEqual([]);
    process.setHeld(false);
    expect(events).toEqual(['1 stdout one']);
    child.finish();
  });

  test('that is held again by its first output leaves the other streams unread', () => {
    const child = new FakeChild();
    const streams: string[] = [];
    const process = new ManagedProcess(
      child,
      { headBytes: 0, tailBytes: 1_000, maxChunks: 1_000 },
      {
        output: (_seq, stream) => {
          streams.push(stream);
          process.setHeld(true);
        },
        exited: () => {},
        closed: () => {},
      },
    );
    process.begin(false);
    process.setHeld(true);
    child.stdout.write('out');
    child.stderr.write('err');
    process.setHeld(false);
    expect([streams, child.stderr.paused]).toEqual([['stdout'], true]);
    process.setHeld(false);
    expect(streams).toEqual(['stdout', 'stderr']);
  });

  test('exits without waiting for the client when a signal has ended it', () => {
    const { child, process, events } = start();
    process.setHeld(true);
    child.stdout.write('one');
    process.signal(15);
    child.exit(143);
    expect(events).toEqual(['1 stdout one', '2 exited 143']);
    child.stdout.write('by a descendant');
    child.endStreams();
    expect(events).toHaveLength(2);
    process.setHeld(false);
    expect(events.slice(2)).toEqual(['3 stdout by a descendant', '4 closed']);
  });

  test('whose connection is full exits when the connection takes its output, also after a signal', () => {
    const { child, process, events } = start({ paused: true });
    child.stdout.write('one');
    process.signal(15);
    child.finish(143);
    expect(events).toEqual([]);
    process.setPaused(false);
    expect(events).toEqual(['1 stdout one', '2 exited 143', '3 closed']);
  });

  test('is read to its end when it is killed', async () => {
    const { child, process, events } = start();
    process.setHeld(true);
    child.stdout.write('one');
    expect(process.terminate({ type: 'force' })).toBe(true);
    await process.wait('closed', null);
    expect(events).toEqual(['1 stdout one', '2 exited 137', '3 closed']);
    process.setHeld(true);
    expect(process.closed).toBe(true);
  });

  test('is killed after the time of a graceful termination', async () => {
    const { child, process, events } = start();
    process.setHeld(true);
    child.stdout.write('one');
    process.terminate({ type: 'graceful', timeoutMs: 1 });
    await process.wait('closed', null);
    expect(child.signals).toEqual([15]);
    expect(events).toEqual(['1 stdout one', '2 exited 137', '3 closed']);
  });

  test('is killed in time, and is not idle meanwhile', async () => {
    const limited = start({ limits: { ...NO_RUN_LIMITS, wallMs: 20 } });
    limited.process.setHeld(true);
    limited.child.stdout.write('one');
    await limited.process.wait('closed', null);
    expect(limited.process.reason).toBe('timeout');
    expect(limited.events).toEqual(['1 stdout one', '2 exited 137', '3 closed']);

    const idle = start({ limits: { ...NO_RUN_LIMITS, idleMs: 5 } });
    onTestFinished(() => idle.process.kill());
    idle.process.setHeld(true);
    // The timer of the other process was set later and is as long: had this one been idle, it would have been killed before.
    const other = start({ limits: { ...NO_RUN_LIMITS, idleMs: 5 } });
    await other.process.wait('closed', null);
    expect([other.process.reason, idle.process.reason]).toEqual(['idle', null]);
  });
});
