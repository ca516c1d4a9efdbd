import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DENIAL_OUTPUT_WAIT_MS } from '../../../src/process/limits.ts';
import { ManagedProcess, type SandboxHooks } from '../../../src/process/managed-process.ts';
import { NO_RUN_LIMITS, type RunLimits } from '../../../src/process/resources/resource-limits.ts';
import { FakeChild } from './fake-child.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});

afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

/** Reports a denial when the output contains `denied`. */
function detectorOf() {
  let said = '';
  return {
    output: (_stream: string, bytes: Buffer) => {
      said += bytes.toString();
    },
    denied: (exitCode: number) => exitCode !== 0 && said.includes('denied'),
  };
}

function start(sandboxHooks: Partial<SandboxHooks>, limits: RunLimits = NO_RUN_LIMITS) {
  const child = new FakeChild();
  const events: string[] = [];
  const process = new ManagedProcess(
    child,
    { headBytes: 0, tailBytes: 1_000, maxChunks: 10 },
    {
      output: (seq, _stream, bytes) => events.push(`${seq} ${bytes}`),
      exited: (seq, exitCode, reason, denied) =>
        events.push(`${seq} exited ${exitCode} ${reason} ${denied ? 'denied' : 'allowed'}`),
      closed: (seq, reason) => events.push(`${seq} closed ${reason}`),
    },
    limits,
    { denialDetector: null, cleanUp: null, ...sandboxHooks },
  );
  process.begin(false);
  return { child, process, events };
}

/** A promise that the test resolves. */
function gate() {
  let open = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open: () => open() };
}

/** Both ends of a real connection: a write on one end is readable at the other immediately. */
async function socketPair() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const near = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [far] = (await once(server, 'connection')) as [Socket];
  const close = () => {
    near.destroy();
    far.destroy();
    server.close();
  };
  return { near, far, close };
}

const settled = () => new Promise(setImmediate);

describe('an exit with a denial detector', () => {
  test('waits for the end of the output', () => {
    const { child, process, events } = start({ denialDetector: detectorOf() });
    child.exit(1);
    expect([process.exitCode, process.denied, events]).toEqual([null, false, []]);
    child.stderr.write('denied');
    child.endStreams();
    expect(events).toEqual(['1 denied', '2 exited 1 null denied', '3 closed null']);
    expect(process.denied).toBe(true);
  });

  test('waits a limited time for a stream that stays open', async () => {
    const { child, process, events } = start({ denialDetector: detectorOf() });
    child.stdout.end();
    child.exit(1);
    vi.advanceTimersByTime(DENIAL_OUTPUT_WAIT_MS - 1);
    expect(events).toEqual([]);
    vi.advanceTimersByTime(1);
    await settled();
    expect(events).toEqual(['1 exited 1 null allowed']);
    // Later reads report the denial.
    child.stderr.write('denied');
    child.stderr.end();
    expect(events.slice(1)).toEqual(['2 denied', '3 closed null']);
    expect(process.denied).toBe(true);
  });

  test.each([
    ['a success', 0, false],
    ['a failure whose output is complete', 1, true],
  ])('%s is reported immediately', (_name, code, ended) => {
    const { child, process } = start({ denialDetector: detectorOf() });
    child.stdout.write('denied');
    if (ended) child.endStreams();
    child.exit(code);
    expect([process.exitCode, process.denied]).toEqual([code, code !== 0]);
    child.endStreams();
    expect(process.closed).toBe(true);
  });

  test('comes after output that became readable while the event loop was blocked', async () => {
    vi.useRealTimers();
    const { near, far, close } = await socketPair();
    const { child, events } = start({ denialDetector: detectorOf() });
    far.on('data', (bytes) => {
      child.stderr.write(bytes);
      child.endStreams();
    });
    child.exit(1);
    near.write('denied');
    // Blocks this thread until the wait for output is over.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * DENIAL_OUTPUT_WAIT_MS);
    await vi.waitFor(() => expect(events).toHaveLength(3));
    close();
    expect(events).toEqual(['1 denied', '2 exited 1 null denied', '3 closed null']);
    vi.useFakeTimers();
  });

  test('is reported once when the process is killed in the meantime', async () => {
    const { child, process, events } = start({ denialDetector: detectorOf() });
    child.exit(1);
    await process.kill();
    expect(events).toEqual(['1 exited 1 null allowed', '2 closed null']);
    expect(child.released).toBe(1);
  });
});

describe('the cleanup', () => {
  test('delays the exit event, but not the output', async () => {
    const { passed, open } = gate();
    const cleanUp = vi.fn(() => passed);
    const { child, process, events } = start({ cleanUp });
    child.exit(3);
    child.stdout.write('last output');
    child.endStreams();
    await settled();
    expect([process.exitCode, process.closed, events]).toEqual([null, false, ['1 last output']]);
    open();
    await settled();
    expect(events).toEqual(['1 last output', '2 exited 3 null allowed', '3 closed null']);
    expect(cleanUp).toHaveBeenCalledTimes(1);
  });

  test('a kill during it resolves after the exit event', async () => {
    const { passed, open } = gate();
    const { child, process, events } = start({ cleanUp: () => passed });
    child.finish(0);
    const killed = process.kill();
    await settled();
    expect(events).toEqual([]);
    open();
    await killed;
    expect(events).toEqual(['1 exited 0 null allowed', '2 closed null']);
  });

  test('a limit that is exceeded during it is not the reason of the exit', async () => {
    const { passed, open } = gate();
    const { child, process, events } = start({ cleanUp: () => passed }, { ...NO_RUN_LIMITS, wallMs: 100 });
    child.exit(0);
    vi.advanceTimersByTime(100);
    await settled();
    open();
    await settled();
    expect(events[0]).toBe('1 exited 0 null allowed');
    await process.kill();
    expect(process.closed).toBe(true);
  });
});
