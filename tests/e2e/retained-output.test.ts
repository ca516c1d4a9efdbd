import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { plain, shell } from '../support/programs.ts';

const HEAD = 700;
const TAIL = 5_000;

let server: TestServer;
let client: TestClient;
beforeAll(async () => {
  server = await startServer({ retainedOutputBytesPerProcess: TAIL, snapshotHeadBytes: HEAD });
  client = await server.connect();
});
afterAll(() => server.close());

const STREAMS = ['stdout', 'stderr'] as const;
type Stream = (typeof STREAMS)[number];
type Writes = readonly (readonly [Stream, number])[];

/** Writes of random sizes on both streams. */
const writes: fc.Arbitrary<Writes> = fc.array(
  fc.tuple(fc.constantFrom(...STREAMS), fc.integer({ min: 1, max: 4_000 })),
  { minLength: 1, maxLength: 12 },
);

/** A program that writes numbered bytes, so that no two parts of a stream are the same. */
const PROGRAM = `
  const { writeSync } = require('node:fs');
  let next = 0;
  for (const [stream, size] of JSON.parse(process.argv[1])) {
    const bytes = Buffer.from(Array.from({ length: size }, () => next++ % 251));
    for (let at = 0; at < size; ) at += writeSync(stream === 'stdout' ? 1 : 2, bytes, at);
  }`;
const program = (steps: Writes) => [process.execPath, '-e', PROGRAM, JSON.stringify(steps)];

/** What the program writes to each stream. */
function streamsOf(steps: Writes): Record<Stream, Buffer> {
  const parts: Record<Stream, Buffer[]> = { stdout: [], stderr: [] };
  let next = 0;
  for (const [stream, size] of steps) {
    parts[stream].push(Buffer.from(Array.from({ length: size }, () => next++ % 251)));
  }
  return { stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr) };
}

async function expectSnapshot(processId: string, steps: Writes, head: number, tail: number): Promise<void> {
  const snapshot = await client.call('process/snapshot', { processId });
  const whole = streamsOf(steps);
  for (const stream of STREAMS) {
    const { length } = whole[stream];
    const omitted = Math.max(0, length - head - tail);
    const firstEnd = Math.min(length, head);
    const expected = [whole[stream].subarray(0, firstEnd), whole[stream].subarray(firstEnd + omitted)];
    expect(Buffer.from(snapshot[stream], 'base64')).toEqual(Buffer.concat(expected));
    expect(snapshot.omittedBytes[stream]).toBe(omitted);
  }
}

let runs = 0;

test('a client that reads from any sequence number sees exactly the retained output of each stream', async () => {
  const property = fc.asyncProperty(writes, fc.nat(30), async (steps, afterSeq) => {
    const processId = `any-${runs++}`;
    await client.call('process/start', { ...plain, processId, argv: program(steps) });
    const { events } = await client.closedProcess(processId);
    await expectSnapshot(processId, steps, HEAD, TAIL);

    const { chunks } = await client.call('process/read', { processId, afterSeq });
    for (const stream of STREAMS) {
      const own = chunks.filter((chunk) => chunk.stream === stream);
      const read = Buffer.concat(own.map(({ chunk }) => Buffer.from(chunk, 'base64')));
      const unseen = events.filter((event) => event.stream === stream && event.seq > afterSeq);
      const expected = Buffer.concat(unseen.map(({ bytes }) => bytes));
      expect(read).toEqual(expected.subarray(expected.length - read.length));
      expect(own.length === unseen.length).toBe(read.length === expected.length);
      if (expected.length > 0) expect(read.length).toBeGreaterThan(0);
    }
  });
  await fc.assert(property, { numRuns: 15 });
});

test('outputBytesCap is never exceeded on any stream', async () => {
  const property = fc.asyncProperty(writes, fc.nat(8_000), async (steps, outputBytesCap) => {
    const processId = `capped-${runs++}`;
    const params = { processId, argv: program(steps), cwd: '/', env: plain.env, tty: false, outputBytesCap };
    await client.call('command/exec', params);
    await client.waitFor(
      ({ method, params }) =>
        method === 'command/exec/exited' && (params as { processId: string }).processId === processId,
    );
    const head = Math.min(HEAD, Math.floor(outputBytesCap / 2));
    const tail = Math.min(TAIL, outputBytesCap - head);
    await expectSnapshot(processId, steps, head, tail);
    const { chunks } = await client.call('process/read', { processId });
    for (const stream of STREAMS) {
      const own = chunks.filter((chunk) => chunk.stream === stream);
      const bytes = own.reduce((sum, { chunk }) => sum + Buffer.from(chunk, 'base64').length, 0);
      expect(bytes).toBeLessThanOrEqual(outputBytesCap);
      expect(bytes > 0).toBe(outputBytesCap > 0 && streamsOf(steps)[stream].length > 0);
    }
  });
  await fc.assert(property, { numRuns: 15 });
});

test('an error message survives a flood on the other stream', async () => {
  const script = 'echo "error: no such table" >&2; head -c 1000000 /dev/zero; echo done';
  await client.call('process/start', shell('flood', script));
  await client.closedProcess('flood');
  const { chunks } = await client.call('process/read', { processId: 'flood' });
  const text = (stream: Stream) =>
    chunks
      .filter((chunk) => chunk.stream === stream)
      .map(({ chunk }) => Buffer.from(chunk, 'base64').toString())
      .join('');
  expect(text('stderr')).toBe('error: no such table\n');
  expect(text('stdout')).toBe(`${'\0'.repeat(TAIL - 5)}done\n`);
});
