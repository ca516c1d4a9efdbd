import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { ExecProcess, ProcessEvent, StartParams } from '../../../src/client/backend.ts';
import type { LocalConfinement } from '../../../src/environment/local-confinement.ts';
import { LocalExecutorFileSystem } from '../../../src/environment/local-file-system.ts';
import { LocalBackend } from '../../../src/environment/local-process.ts';
import { isAlive } from '../../support/machine.ts';
import { shell } from '../../support/programs.ts';
import { waitFor } from '../../support/wait-for.ts';
import { FakeChild, FakeSpawner } from '../process/fake-child.ts';

const RETENTION_MS = 30_000;
const RETAINED_BYTES = 1024 * 1024;

afterEach(() => {
  vi.useRealTimers();
});

/** A backend whose programs are the test's. */
function setUp() {
  const spawner = new FakeSpawner();
  const backend = new LocalBackend({ spawner });
  const start = async (child: FakeChild, params: Partial<StartParams> = {}): Promise<ExecProcess> => {
    const starting = backend.start({ ...shell('p', ''), ...params });
    await waitFor('the start', () => spawner.starts.length > 0);
    spawner.succeed(child);
    return starting;
  };
  return { spawner, backend, start };
}

async function collect(process: ExecProcess): Promise<ProcessEvent[]> {
  const all: ProcessEvent[] = [];
  for await (const event of process.events()) all.push(event);
  return all;
}

describe('output', () => {
  test('is not lent but given', async () => {
    const { start } = setUp();
    const child = new FakeChild();
    const process = await start(child);
    child.outputs[0]!.write('a'.repeat(RETAINED_BYTES));
    const { chunks } = await process.read();
    child.outputs[0]!.write('b'.repeat(RETAINED_BYTES));
    const text = Buffer.concat(chunks.map(({ bytes }) => bytes)).toString();
    expect(text === 'a'.repeat(RETAINED_BYTES)).toBe(true);
  });

  test('reaches the first subscriber although it came before the start was answered', async () => {
    const { start } = setUp();
    const child = new FakeChild();
    child.outputs[0]!.write('early');
    child.finish(4);
    expect(await collect(await start(child))).toMatchObject([
      { type: 'output', seq: 1, stream: 'stdout', bytes: new Uint8Array(Buffer.from('early')) },
      { type: 'exited', seq: 2, exitCode: 4 },
      { type: 'closed', seq: 3 },
    ]);
  });
});

describe('a process that has ended', () => {
  test('is readable for a while, and unknown afterwards', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { backend, spawner } = setUp();
    const starting = backend.start({ ...shell('p', ''), pipeStdin: true });
    await new Promise(setImmediate);
    const child = new FakeChild({ stdin: true });
    spawner.succeed(child);
    const process = await starting;
    child.outputs[0]!.write('out');
    child.finish();
    vi.advanceTimersByTime(RETENTION_MS - 1);
    expect(await process.read()).toMatchObject({ chunks: [{ seq: 1 }], closed: true });
    expect(await process.write('x')).toBe('accepted');
    vi.advanceTimersByTime(1);
    await expect(process.read()).rejects.toMatchObject({ kind: 'server', code: -32600 });
    await expect(process.resize(1, 1)).rejects.toMatchObject({ kind: 'server', code: -32600 });
    expect(await process.write('x')).toBe('unknownProcess');
    expect(await process.closeStdin()).toBe(false);
    expect(await process.terminate()).toBe(false);
    await process.signal('interrupt');
    expect((await collect(process)).map((event) => event.type)).toEqual(['output', 'exited', 'closed']);
  });

  test('is not taken for the next one of its name', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { backend, spawner } = setUp();
    const launch = async (child: FakeChild) => {
      const starting = backend.start(shell('p', ''));
      await new Promise(setImmediate);
      spawner.succeed(child);
      return starting;
    };
    const first = new FakeChild();
    const old = await launch(first);
    first.finish();
    vi.advanceTimersByTime(RETENTION_MS);
    const second = new FakeChild();
    await launch(second);
    expect(await old.terminate()).toBe(false);
    await old.signal('interrupt');
    expect([second.killed, second.signals]).toEqual([0, []]);
    await expect(old.read()).rejects.toMatchObject({ code: -32600 });
  });
});

describe('a start that is given up', () => {
  test.each([
    ['timeout', () => ({ timeoutMs: 1 })],
    ['aborted', () => ({ signal: AbortSignal.timeout(1) })],
  ])('with %s is undone when it is through', async (kind, options) => {
    const { backend, spawner } = setUp();
    await expect(backend.start(shell('p', ''), options())).rejects.toMatchObject({ kind });
    const child = spawner.succeed();
    await waitFor('its end', () => child.killed === 1);
  });

  test('does not touch the process that has the id', async () => {
    const { backend, start } = setUp();
    const child = new FakeChild();
    await start(child);
    await expect(backend.start(shell('p', ''), { timeoutMs: 1000 })).rejects.toMatchObject({
      kind: 'server',
      code: -32600,
      message: 'process p already exists',
    });
    expect(child.killed).toBe(0);
  });
});

describe('what is refused', () => {
  test.each<[string, object, number]>([
    ['a sandbox', { sandbox: {} }, -32602],
    ['a network proxy', { networkProxy: {} }, -32602],
    ['a network that only a proxy leads to', { enforceManagedNetwork: true }, -32602],
    ['a directory that is not UTF-8', { cwd: 'file:///%FF' }, -32603],
    ['a terminal without rows', { tty: true, size: { rows: 0, cols: 1 } }, -32602],
  ])('%s', async (_name, params, code) => {
    const { backend, spawner } = setUp();
    const start = backend.start({ ...shell('p', ''), ...params } as StartParams);
    await expect(start).rejects.toMatchObject({ name: 'ClientError', kind: 'server', code });
    expect(spawner.starts).toEqual([]);
  });

  test('a size that is none', async () => {
    const { start } = setUp();
    const process = await start(new FakeChild({ streams: ['pty'] }), { tty: true });
    await expect(process.resize(0, 1)).rejects.toMatchObject({ kind: 'server', code: -32602 });
  });
});

test('a program sees files that were being written when it was started', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'local-process-'));
  const files = new LocalExecutorFileSystem();
  const backend = new LocalBackend({ files });
  try {
    writeFileSync(join(folder, 'file'), 'old');
    const writing = files.writeFile(`file://${folder}/file`, 'new'.repeat(1_000_000));
    const process = await backend.start(shell('p', `wc -c < ${folder}/file`));
    const bytes = (await collect(process)).flatMap((event) => (event.type === 'output' ? [event.bytes] : []));
    expect(Buffer.concat(bytes).toString()).toBe('3000000\n');
    await writing;
  } finally {
    await backend.dispose();
    rmSync(folder, { recursive: true });
  }
});

test('a start that is cut short by the end of the backend is cleared away before that is over', async () => {
  const order: string[] = [];
  const spawner = new FakeSpawner();
  spawner.close = async () => void order.push('spawner closed');
  const wrapInSandbox = (_spec: unknown, signal: AbortSignal) =>
    new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => {
        order.push('start cut short');
        reject(new Error('cut short'));
      });
      order.push('start begun');
    });
  const confinement = {
    program: () => ({ sandboxType: 'linuxSeccomp', wrapInSandbox }),
    close: async () => void order.push('confinement closed'),
  } as unknown as LocalConfinement;
  const backend = new LocalBackend({ spawner, confinement });
  const sandbox = { type: 'readOnly', networkAccess: false } as const;
  const started = expect(backend.start({ ...shell('p', ''), sandbox })).rejects.toThrow('cut short');
  await waitFor('the start', () => order.length > 0);
  await backend.dispose();
  await started;
  expect(order).toEqual(['start begun', 'start cut short', 'confinement closed', 'spawner closed']);
});

test('disposing of the backend kills what is left', async () => {
  const backend = new LocalBackend();
  const process = await backend.start(shell('p', 'sleep 1000 & echo $! $$; wait'));
  await waitFor('the pids', () => process.revision === 1);
  const [output] = (await process.read()).chunks;
  const pids = Buffer.from(output!.bytes).toString().split(' ').map(Number);
  await backend.dispose();
  expect(process.state).toMatchObject({ exitCode: 137, closed: true });
  expect(pids.map(isAlive)).toEqual([false, false]);
  await expect(backend.start(shell('q', ''))).rejects.toMatchObject({ kind: 'closed' });
});
