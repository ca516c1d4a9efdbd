import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { ExecProcess, ProcessEvent, StartParams } from '../../../src/client/backend.ts';
import { LocalConnection } from '../../../src/environment/local-connection.ts';
import { LazyBackend } from '../../../src/environment/remote/lazy-backend.ts';
import { lazyFileSystem } from '../../../src/environment/remote/lazy-file-system.ts';
import { isAlive } from '../../support/machine.ts';
import { shell } from '../../support/programs.ts';
import { waitFor } from '../../support/wait-for.ts';

const RETAINED_BYTES = 1024 * 1024;

let folder: string;
let connection: LocalConnection;
let backend: LazyBackend;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'local-process-'));
  connection = new LocalConnection();
  backend = new LazyBackend(connection);
});
afterEach(async () => {
  await connection.dispose();
  rmSync(folder, { recursive: true });
});

async function collect(process: ExecProcess): Promise<ProcessEvent[]> {
  const all: ProcessEvent[] = [];
  for await (const event of process.events()) all.push(event);
  return all;
}

function textOf(chunks: readonly { readonly bytes: Uint8Array }[]): string {
  return Buffer.concat(chunks.map(({ bytes }) => bytes)).toString();
}

/** The processes of this machine that have `text` among their arguments. */
function processesWith(text: string): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(text);
    } catch {
      return false;
    }
  });
}

describe('output', () => {
  test('that was read does not change when the program writes more', async () => {
    const script = `head -c ${RETAINED_BYTES} /dev/zero | tr '\\0' a; read go; head -c ${RETAINED_BYTES} /dev/zero | tr '\\0' b`;
    const process = await backend.start({ ...shell('p', script), pipeStdin: true });
    const length = async () => textOf((await process.read()).chunks).length;
    await waitFor('the first output', async () => (await length()) === RETAINED_BYTES);
    const { chunks } = await process.read();
    await process.write('\n');
    await collect(process);
    expect(textOf(chunks) === 'a'.repeat(RETAINED_BYTES)).toBe(true);
  });

  test('reaches a subscriber that comes after the end', async () => {
    const process = await backend.start({ ...shell('p', 'printf early; read go; exit 4'), pipeStdin: true });
    await waitFor('the output', () => process.revision === 1);
    await process.write('\n');
    await waitFor('the end', () => process.state.closed);
    const events = await collect(process);
    expect(textOf(events.filter((event) => event.type === 'output'))).toBe('early');
    expect(events).toMatchObject([
      { type: 'output', seq: 1, stream: 'stdout' },
      { type: 'exited', seq: 2, exitCode: 4 },
      { type: 'closed', seq: 3 },
    ]);
  });
});

test('a process that has ended is readable while it is retained', async () => {
  const process = await backend.start(shell('p', 'printf out'));
  await waitFor('the end', () => process.state.closed);
  expect(await process.read()).toMatchObject({ chunks: [{ seq: 1 }], closed: true });
});

test('a process that has ended is unknown after its retention, and its events stay readable', async () => {
  const brief = new LocalConnection({}, { closedProcessRetentionMs: 1 });
  onTestFinished(() => brief.dispose());
  const process = await new LazyBackend(brief).start({ ...shell('p', 'printf out'), pipeStdin: true });
  await waitFor('the end', () => process.state.closed);
  await waitFor('the end of the retention', () =>
    process.read().then(
      () => false,
      () => true,
    ),
  );
  const gone = {
    kind: 'notFound',
    code: -32600,
    message: expect.stringMatching(/^unknown process: \S*sh \(process \w+\)$/),
  };
  await expect(process.read()).rejects.toMatchObject(gone);
  await expect(process.resize(1, 1)).rejects.toMatchObject(gone);
  await expect(process.write('x')).rejects.toMatchObject({
    kind: 'stdinClosed',
    message: expect.stringMatching(/^cannot write to \S*sh \(process \w+\): it has exited with code 0$/),
  });
  expect(await process.closeStdin()).toBe(false);
  expect(await process.terminate()).toBe(false);
  await process.signal('interrupt');
  expect((await collect(process)).map((event) => event.type)).toEqual(['output', 'exited', 'closed']);
});

describe('a start', () => {
  test.each([
    ['timeout', () => ({ timeoutMs: 1 })],
    ['aborted', () => ({ signal: AbortSignal.timeout(1) })],
  ])('that ends with %s leaves no process', async (kind, options) => {
    const mark = join(folder, kind);
    const params = { ...shell('p', `touch ${mark}; sleep 1000`), argv: ['sh', '-c', 'sleep 1000', mark] };
    await expect(backend.start(params, options())).rejects.toMatchObject({ kind });
    const other = await backend.start(shell('q', 'true'));
    await waitFor('the end of the other', () => other.state.closed);
    await waitFor('the end of the process', () => processesWith(mark).length === 0);
  });

  test('with an id that is in use leaves the process that has it', async () => {
    const process = await backend.start(shell('p', 'exec sleep 1000'));
    await expect(backend.start(shell('p', ''), { timeoutMs: 1000 })).rejects.toMatchObject({
      name: 'ClientError',
    });
    expect(process.state).toMatchObject({ exited: false, failure: null });
    expect(await process.terminate()).toBe(true);
  });

  test.each<[string, object, number, string]>([
    ['an unknown kind of sandbox', { sandbox: { type: 'paper' } }, -32602, 'invalidInput'],
    ['a directory that is not UTF-8', { cwd: 'file:///%FF' }, -32603, 'unsupported'],
    ['a terminal without rows', { tty: true, size: { rows: 0, cols: 1 } }, -32602, 'invalidInput'],
  ])('is rejected for %s', async (_name, params, code, kind) => {
    const start = backend.start({ ...shell('p', ''), ...params } as StartParams);
    await expect(start).rejects.toMatchObject({ name: 'ClientError', kind, code });
  });
});

test('a terminal cannot get a size without rows', async () => {
  const process = await backend.start({ ...shell('p', 'exec sleep 1000'), tty: true });
  await expect(process.resize(0, 1)).rejects.toMatchObject({ kind: 'invalidInput' });
});

test('a program sees files that were being written when it was started', async () => {
  const files = lazyFileSystem(connection);
  writeFileSync(join(folder, 'file'), 'old');
  const writing = files.writeFile(`file://${folder}/file`, 'new'.repeat(1_000_000));
  const process = await backend.start(shell('p', `wc -c < ${folder}/file`));
  const bytes = (await collect(process)).flatMap((event) => (event.type === 'output' ? [event.bytes] : []));
  expect(Buffer.concat(bytes).toString()).toBe('3000000\n');
  await writing;
});

describe('dispose', () => {
  test('kills what is left', async () => {
    const process = await backend.start(shell('p', 'sleep 1000 & echo $! $$; wait'));
    await waitFor('the pids', () => process.revision === 1);
    const [output] = (await process.read()).chunks;
    const pids = Buffer.from(output!.bytes).toString().split(' ').map(Number);
    await connection.dispose();
    expect(process.state).toMatchObject({ exitCode: 137, closed: true });
    expect(pids.map(isAlive)).toEqual([false, false]);
    await expect(backend.start(shell('q', ''))).rejects.toMatchObject({ kind: 'closed' });
  });

  test('cleans up after a sandboxed start that it interrupts', async () => {
    const mark = join(folder, 'mark');
    const sandbox = { type: 'readOnly', networkAccess: false } as const;
    await (await backend.start(shell('warm-up', 'true'))).terminate();
    const params = { ...shell('p', ''), argv: ['sh', '-c', 'sleep 1000', mark], sandbox };
    const started = backend.start(params).catch(() => null);
    await connection.dispose();
    // The start either fails or succeeds just before the process is killed.
    expect((await started)?.state.closed).not.toBe(false);
    expect(processesWith(mark)).toEqual([]);
  });
});
