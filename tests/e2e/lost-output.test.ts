import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { ExecProcess, LostEvent, OutputStream, ProcessEvent } from '../../src/client/backend.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { outputOf, outputTextOf } from '../../src/client/process/output.ts';
import { communicate } from '../../src/client/process/run.ts';
import { startServer, TcpProxy } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** The output of `seq`. */
const seq = (from: number, to: number, end = '\n') =>
  Array.from({ length: to - from + 1 }, (_, index) => `${from + index}${end}`).join('');

/** A server, a connection that the test can cut, a client, and a folder in which programs wait for files. */
async function setUp() {
  const server = await startServer();
  const proxy = await TcpProxy.open(server.url);
  const client = await ExecServerClient.connect({ url: proxy.url });
  const folder = mkdtempSync(join(tmpdir(), 'lost-output-'));
  cleanups.push(
    () => server.close(),
    () => proxy.close(),
    () => client.close(),
    () => rmSync(folder, { recursive: true }),
  );
  return { proxy, client, folder, gate: `while [ ! -e ${folder}/go ]; do sleep 0.01; done` };
}

type Fixture = Awaited<ReturnType<typeof setUp>>;

/** Cuts the connection after the first output, and restores it when the program has created the file `written`. */
async function cutWhileWriting({ proxy, client, folder }: Fixture, process: ExecProcess): Promise<void> {
  await waitFor('the first output', () => process.revision >= 1);
  proxy.interrupt();
  await waitFor('the loss', () => client.state === 'recovering');
  writeFileSync(join(folder, 'go'), '');
  await waitFor('the output', () => existsSync(join(folder, 'written')));
  proxy.restore();
}

/** Checks that the text is the whole output with gaps of this size in total, which marker lines replace. */
function expectGaps(text: string, whole: string, bytes: number): void {
  let at = 0;
  let lost = 0;
  for (const [index, part] of text.split(/\n\.\.\. (\d+) bytes lost \.\.\.\n/).entries()) {
    if (index % 2 === 1) lost += Number(part);
    else expect(whole.slice(at, at + part.length) === part, `text at ${at}`).toBe(true);
    at += index % 2 === 1 ? Number(part) : part.length;
  }
  expect([at, lost]).toEqual([whole.length, bytes]);
}

const lostOf = (lost: readonly LostEvent[], stream: OutputStream) =>
  lost.reduce((sum, { streamBytes }) => sum + streamBytes![stream], 0);

describe('more missed output than the server retains', () => {
  test('is counted per stream and marked in the text of a result, while the program still writes', async () => {
    const fixture = await setUp();
    const { folder, gate, client } = fixture;
    const script = `echo one; ${gate}; seq 1 600000; seq 1 400000 >&2; touch ${folder}/written; seq 600001 900000; exit 7`;
    const process = await client.backend.start(shell('p', script));
    const running = communicate(process, undefined);
    await cutWhileWriting(fixture, process);
    const { exitCode, stdout, stderr, text, truncated, omittedBytes, lost } = await running;
    expect([exitCode, truncated]).toEqual([7, true]);
    const whole = { stdout: `one\n${seq(1, 900_000)}`, stderr: seq(1, 400_000) };
    const missing = { stdout: lostOf(lost, 'stdout'), stderr: lostOf(lost, 'stderr') };
    expect(missing).toEqual({
      stdout: whole.stdout.length - stdout.length,
      stderr: whole.stderr.length - stderr.length,
    });
    expect(missing.stdout).toBeGreaterThan(1_000_000);
    expect(missing.stderr).toBeGreaterThan(1_000_000);
    expect(omittedBytes).toBe(missing.stdout + missing.stderr);
    expectGaps(text.stdout, whole.stdout, missing.stdout);
    expectGaps(text.stderr, whole.stderr, missing.stderr);
    expect(Buffer.from(stdout).includes('bytes lost')).toBe(false);
  });

  test('is marked in the output of a terminal', async () => {
    const fixture = await setUp();
    const { folder, gate, client } = fixture;
    const script = `echo one; ${gate}; seq 1 500000; touch ${folder}/written; seq 500001 600000`;
    const process = await client.backend.start({ ...shell('p', script), tty: true });
    const running = communicate(process, undefined);
    const texts = (async () => {
      const pieces = [];
      for await (const piece of outputTextOf(process)) pieces.push(piece);
      return pieces;
    })();
    await cutWhileWriting(fixture, process);
    const { terminal, text, lost, omittedBytes } = await running;
    const whole = `one\r\n${seq(1, 600_000, '\r\n')}`;
    expect(omittedBytes).toBe(whole.length - terminal.length);
    expect(omittedBytes).toBeGreaterThan(1_000_000);
    expectGaps(text.terminal, whole, omittedBytes);
    const pieces = await texts;
    expect(pieces.map((piece) => piece.text).join('')).toBe(text.terminal);
    expect(pieces.flatMap((piece) => piece.lost ?? [])).toEqual(lost);
  });

  test('ends a loop over bytes with an error, unless the caller handles it', async () => {
    const fixture = await setUp();
    const { folder, gate, client } = fixture;
    const script = `echo one; ${gate}; seq 1 500000; touch ${folder}/written`;
    const process = await client.backend.start(shell('p', script));
    const read = async (options = {}) => {
      let bytes = 0;
      for await (const piece of outputOf(process, options)) bytes += piece.bytes.length;
      return bytes;
    };
    const lost: LostEvent[] = [];
    const outcomes = Promise.allSettled([read(), read({ onLost: (event: LostEvent) => lost.push(event) })]);
    await cutWhileWriting(fixture, process);
    const [strict, tolerant] = await outcomes;
    const total = 'one\n'.length + seq(1, 500_000).length;
    expect(lost.length).toBeGreaterThan(0);
    expect(tolerant).toEqual({ status: 'fulfilled', value: total - lostOf(lost, 'stdout') });
    expect(strict).toMatchObject({ reason: { kind: 'outputLost', data: lost[0] } });
  });

  test('does not move the exit behind output that a descendant wrote later', async () => {
    const fixture = await setUp();
    const { folder, gate, client } = fixture;
    const descendant = `while kill -0 $$; do sleep 0.01; done 2>/dev/null; seq 1 500000; touch ${folder}/written`;
    const process = await client.backend.start(shell('p', `echo one; (${descendant}) & ${gate}; exit 3`));
    const events: ProcessEvent[] = [];
    const done = (async () => {
      for await (const event of process.events()) events.push(event);
    })();
    await cutWhileWriting(fixture, process);
    await done;
    const read = await client.call('process/read', { processId: 'p', withPosition: true });
    const { exitSeq } = read.position!;
    expect(events.find(({ type }) => type === 'exited')).toMatchObject({ exitCode: 3, seq: exitSeq });
    const behind = events.filter((event) => event.type === 'lost' && event.fromSeq > exitSeq!);
    expect(behind.length).toBeGreaterThan(0);
  });
});

test('reading with a byte limit until `closed` returns all retained output', async () => {
  const { client } = await setUp();
  const process = await client.backend.start(shell('p', 'for i in 1 2 3 4 5; do echo $i; sleep 0.05; done'));
  await communicate(process, undefined);
  let text = '';
  for (let afterSeq = 0, closed = false; !closed; ) {
    const page = await process.read({ afterSeq, maxBytes: 1 });
    for (const { bytes } of page.chunks) text += Buffer.from(bytes);
    [afterSeq, closed] = [page.nextSeq - 1, page.closed];
  }
  expect(text).toBe(seq(1, 5));
});
