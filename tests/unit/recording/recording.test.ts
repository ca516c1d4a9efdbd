import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import type { ProcessListener } from '../../../src/process/managed-process.ts';
import type { StreamName } from '../../../src/process/spawn/spawner.ts';
import { type CastEvent, CastReader } from '../../../src/recording/asciicast.ts';
import { type FinishedRecording, Recording } from '../../../src/recording/recording.ts';
import { RecordingFile } from '../../../src/recording/recording-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'recording-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const HEADER = { version: 3, term: { cols: 80, rows: 24 }, timestamp: 1 } as const;
const UNHEARD: ProcessListener = { output() {}, exited() {}, closed() {} };
let files = 0;

interface Options {
  readonly tty?: boolean;
  readonly input?: boolean;
  readonly maxBytes?: number;
  readonly mayGrow?: (bytes: number) => boolean;
  readonly directoryReady?: Promise<void>;
}

/** A recording and the events of the process that it records. */
function record({
  tty = true,
  input = false,
  maxBytes = 2 ** 30,
  mayGrow = () => true,
  directoryReady = Promise.resolve(),
}: Options = {}) {
  const path = join(folder, `${files++}.cast`);
  const file = new RecordingFile(path, HEADER, { maxBytes, mayGrow }, directoryReady);
  let finished: FinishedRecording | null = null;
  const ended = (result: FinishedRecording) => {
    finished = result;
  };
  const recording = new Recording(file, { recordingId: 'r', tty, input, ended });
  const events = recording.watch(UNHEARD);
  let seq = 1;
  return {
    recording,
    path,
    output: (bytes: string | Uint8Array, stream: StreamName = tty ? 'pty' : 'stdout') =>
      events.output(seq++, stream, Buffer.from(bytes)),
    exited: (denied = false) => events.exited(seq++, 3, null, denied),
    async end(): Promise<{ finished: FinishedRecording; events: CastEvent[] }> {
      if (seq === 1 || finished === null) events.exited(seq++, 3, null, false);
      events.closed(seq++, null);
      await recording.end();
      return { finished: finished!, events: read(path) };
    },
  };
}

function read(path: string): CastEvent[] {
  const reader = new CastReader();
  const text = readFileSync(path, 'utf8');
  expect(text.endsWith('\n')).toBe(true);
  return text
    .slice(0, -1)
    .split('\n')
    .flatMap((line) => reader.line(line) ?? []);
}

const outputOf = (events: readonly CastEvent[]) =>
  events
    .filter(({ code }) => code === 'o')
    .map(({ text }) => text)
    .join('');
const codes = (events: readonly CastEvent[]) => events.map(({ code, text }) => `${code} ${text}`);

test('writes what it was given, for any chunks, resizes and bytes', async () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.uint8Array({ maxLength: 40 }) },
    {
      weight: 2,
      arbitrary: fc.constantFrom('ü', '😀', '\r\n', 'x\ty', '"\\').map((text) => Buffer.from(text)),
    },
    { weight: 1, arbitrary: fc.record({ rows: fc.integer({ min: 1, max: 500 }), cols: fc.constant(80) }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 20 }),
      fc.array(fc.nat(200), { maxLength: 20 }),
      async (steps, cuts) => {
        const { recording, output, end } = record();
        const given: Uint8Array[] = [];
        for (const [index, each] of steps.entries()) {
          if (!(each instanceof Uint8Array)) {
            recording.resized(each.rows, each.cols);
            continue;
          }
          given.push(each);
          const at = (cuts[index] ?? 0) % (each.length + 1);
          output(each.subarray(0, at));
          output(each.subarray(at));
        }
        const { events, finished } = await end();
        expect(outputOf(events)).toBe(
          new TextDecoder('utf-8', { ignoreBOM: true }).decode(Buffer.concat(given)),
        );
        const resizes = steps.flatMap((each) =>
          each instanceof Uint8Array ? [] : [`${each.cols}x${each.rows}`],
        );
        expect(events.filter(({ code }) => code === 'r').map(({ text }) => text)).toEqual(resizes);
        expect(events.map(({ atUs }) => atUs)).toEqual(
          events.map(({ atUs }) => atUs).toSorted((a, b) => a - b),
        );
        expect(codes(events).at(-1)).toBe('x 3');
        expect(finished).toMatchObject({ complete: true, bytes: statSync(finished.path).size });
        expect(finished.sha256).toBe(createHash('sha256').update(readFileSync(finished.path)).digest('hex'));
      },
    ),
    { numRuns: 60 },
  );
});

test('holds an incomplete character back, and replaces invalid bytes', async () => {
  const { output, end } = record();
  const [smile, bad] = [Buffer.from('😀'), Buffer.from([0x61, 0xff, 0x62])];
  output(smile.subarray(0, 1));
  output(smile.subarray(1, 3));
  output(smile.subarray(3));
  output(bad);
  output(smile.subarray(0, 2));
  expect(outputOf((await end()).events)).toBe('😀a\ufffdb\ufffd');
});

test('keeps the order of streams, resizes and markers around an unfinished line', async () => {
  const { recording, output, exited, end } = record({ tty: false });
  output('out 1 ', 'stdout');
  output('err 1\n', 'stderr');
  recording.marker('attached: me (viewer)');
  output('out 2\n', 'stdout');
  exited(true);
  expect(codes((await end()).events)).toEqual([
    'o out 1 ',
    'o err 1\r\n',
    'm attached: me (viewer)',
    'o out 2\r\n',
    'm the sandbox denied an operation',
    'x 3',
  ]);
});

test('adds carriage returns to the lines of pipes, once', async () => {
  const { output, end } = record({ tty: false });
  for (const text of ['a\n', 'b\r', '\nc\r\n', '\n']) output(text);
  expect(outputOf((await end()).events)).toBe('a\r\nb\r\nc\r\n\r\n');
});

test('records input only when it was asked for, and masks it', async () => {
  for (const input of [false, true]) {
    const { recording, output, end } = record({ input });
    recording.written(Buffer.from('PASSWORD=hunter2\r'));
    output('ok\n');
    expect(codes((await end()).events)).toEqual([...(input ? ['i PASSWORD=***\r'] : []), 'o ok\n', 'x 3']);
  }
});

test('masks a secret that is split between chunks of one stream by chunks of another', async () => {
  const { output, end } = record({ tty: false });
  output('token=hun', 'stdout');
  output('warning\n', 'stderr');
  output('ter2\n', 'stdout');
  expect(outputOf((await end()).events)).toBe('token=***warning\r\n\r\n');
});

test('writes an unfinished line after a moment without output', async () => {
  const { output, path, recording, end } = record();
  output('Password: ');
  await expect.poll(() => readFileSync(path, 'utf8')).toContain('Password: ');
  expect(recording.state).toBe('recording');
  await end();
});

test('stops at its size with a marker, and still has the exit status', async () => {
  const { output, end, recording } = record({ maxBytes: 20_000 });
  for (let line = 0; line < 2_000; line++) output(`line ${line}\n`);
  const { events, finished } = await end();
  expect(finished.bytes).toBeLessThanOrEqual(20_000);
  expect(finished.bytes).toBeGreaterThan(18_000);
  expect(finished.complete).toBe(false);
  expect(recording.state).toBe('incomplete');
  const [stopped, incomplete, exit] = codes(events).slice(-3);
  expect(stopped).toBe('m recording stopped at its limit: it has 20000 bytes');
  expect(exit).toBe('x 3');
  const recorded = Buffer.byteLength(outputOf(events));
  const all = Array.from({ length: 2_000 }, (_, line) => `line ${line}\n`).join('').length;
  expect(incomplete).toBe(`m recording incomplete: ${all - recorded} bytes of output are missing`);
});

test('stops when all recordings together take too much space', async () => {
  const { output, end } = record({ mayGrow: () => false });
  output('line\n');
  expect(codes((await end()).events)).toEqual([
    'm recording stopped at its limit: all recordings together take too much space',
    'm recording incomplete: 5 bytes of output are missing',
    'x 3',
  ]);
});

test('ends a recording whose program the server does not see end', async () => {
  const { recording, output, path } = record();
  output('half');
  await recording.end();
  expect(codes(read(path))).toEqual(['o half', 'm the server ended before the program']);
  expect(recording.state).toBe('incomplete');
});

test('rejects a file that exists, and loses only the recording', async () => {
  const { path, end } = record();
  await end();
  const again = new RecordingFile(path, HEADER, { maxBytes: 1e6, mayGrow: () => true }, Promise.resolve());
  await expect(again.opened).rejects.toThrow('EEXIST');
  again.append({ atUs: 0, code: 'o', text: 'x' });
  expect(await again.finish({ atUs: 1, code: 'x', text: '0' })).toMatchObject({ complete: false });
  expect(codes(read(path))).toEqual(['x 3']);
});

test('loses output with a marker in its place while the disk is too slow', async () => {
  let diskAnswers = () => {};
  const directoryReady = new Promise<void>((resolve) => {
    diskAnswers = resolve;
  });
  const { recording, output, end } = record({ directoryReady });
  const chunk = `${'x'.repeat(65_535)}\n`;
  for (let count = 0; count < 200; count++) output(chunk);
  diskAnswers();
  await recording.opened;
  await expect.poll(() => recording.bytes).toBeGreaterThan(8_000_000);
  output('after\n');
  const { events, finished } = await end();
  const recorded = outputOf(events).length - 'after\n'.length;
  expect(recorded % chunk.length).toBe(0);
  expect(recorded).toBeLessThan(9_000_000);
  const lost = 200 * chunk.length - recorded;
  expect(codes(events).slice(-4)).toEqual([
    `m ${lost} bytes of output are missing: the disk is too slow`,
    'o after\n',
    `m recording incomplete: ${lost} bytes of output are missing`,
    'x 3',
  ]);
  expect(finished.complete).toBe(false);
});

test('does not fill up with viewers that come and go', async () => {
  const { recording, output, end } = record({ maxBytes: 40_000 });
  for (let turn = 0; turn < 2_000; turn++) recording.viewerMarker(`attached: ${'n'.repeat(60)} (viewer)`);
  recording.marker('attached: someone (driver)');
  output('still recorded\n');
  const { finished, events } = await end();
  const markers = events.filter(({ code }) => code === 'm').map(({ text }) => text);
  expect(markers.length).toBeLessThan(200);
  expect(markers.slice(-2)).toEqual(['further viewers have no markers', 'attached: someone (driver)']);
  expect(finished.complete).toBe(true);
});
