import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { encodeFrame } from '../../src/relay/frames/frame.ts';
import { MAX_HARNESSES_PER_ENVIRONMENT, MAX_STREAM_ID_CHARS } from '../../src/relay/service/limits.ts';
import { connectFrameSocket } from '../../src/transport/frame-socket.ts';
import { Environment, someKey } from '../unit/relay/service/relay-fixture.ts';
import { type RelayNode, relayFolder, startNode } from './relay-nodes.ts';

const FLOODER = fileURLToPath(new URL('../fixtures/relay-flood.mjs', import.meta.url));
const ROUND_TRIPS = 20;
/**
 * What the relay may compute while a round trip of another environment waits, on average. Two passes through the relay take a few
 * milliseconds. In processor time, because on a busy machine everything else takes longer.
 */
const MAX_CPU_PER_ROUND_TRIP_MS = 250;

const FLOODS: readonly (readonly [string, Buffer])[] = [
  ['empty pings', repeated(frame(0x89))],
  ['empty pongs', repeated(frame(0x8a))],
  ['fragments without an end', Buffer.concat([frame(0x02), repeated(frame(0x00))])],
  // The relay answers each with a reset.
  ['streams that are refused', repeated(frame(0x82, record('x'.repeat(MAX_STREAM_ID_CHARS + 1))))],
  ['tiny records', repeated(frame(0x82, record('stream')))],
];

test.each(FLOODS)('a flood of %s by one environment does not delay another', async (_name, bytes) => {
  const node = await startNode(relayFolder());
  await expectAnswersDuring(node, () => floodAsTenant(node, bytes));
});

test.each(['/healthz', '/nowhere'])(
  'a flood of requests for %s without a token delays no environment',
  async (path) => {
    const node = await startNode(relayFolder());
    const bytes = repeated(Buffer.from(`GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`));
    await expectAnswersDuring(node, () => flood(bytes, 100, node.url));
  },
);

/** Sends frames from a harness to its executor and back during the flood. */
async function expectAnswersDuring(node: RelayNode, startFlood: () => Promise<void>): Promise<void> {
  const other = await pair(node);
  await other.roundTrip();
  await startFlood();
  const cpuMs = cpuMsOf(node);
  for (let count = 0; count < ROUND_TRIPS; count++) await other.roundTrip();
  expect((cpuMsOf(node) - cpuMs) / ROUND_TRIPS).toBeLessThan(MAX_CPU_PER_ROUND_TRIP_MS);
}

/** An executor that sends every frame back, and a harness. */
async function pair({ url }: RelayNode) {
  const environment = new Environment(url, 'other');
  const executor = await environment.executor();
  const harness = await environment.harness();
  let count = 0;
  return {
    roundTrip: async () => {
      harness.record('stream', count++);
      executor.send((await executor.hasReceived(count))[count - 1]!);
      await harness.hasReceived(count);
    },
  };
}

/** Floods from all harnesses that an environment may have. */
async function floodAsTenant({ url }: RelayNode, bytes: Buffer): Promise<void> {
  const environment = new Environment(url, 'flood');
  const executorUrl: string = (await environment.register(someKey())).body.url;
  const harnessUrl = await harnessUrlOf(environment, executorUrl);
  await flood(bytes, MAX_HARNESSES_PER_ENVIRONMENT, harnessUrl, executorUrl);
}

/** Starts a flood in another process. It runs until the end of the test. */
async function flood(bytes: Buffer, connections: number, ...urls: string[]): Promise<void> {
  const child = spawn(process.execPath, [FLOODER, String(connections), ...urls], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  child.stdin.end(bytes);
  const failed = exited.then(() => {
    throw new Error('the flooder has ended');
  });
  failed.catch(() => {});
  await Promise.race([once(child.stdout, 'data'), failed]);
}

/** The registry gives harnesses a URL only while the executor is connected. The flooder then takes over from this executor. */
async function harnessUrlOf(environment: Environment, executorUrl: string): Promise<string> {
  const executor = await connectFrameSocket(executorUrl);
  const { body } = await environment.connect(someKey());
  executor.drop();
  return body.url;
}

/** Processor time that the relay has used (proc_pid_stat(5): utime and stime, in ticks of 10 ms). */
function cpuMsOf({ pid }: RelayNode): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

function record(streamId: string): Uint8Array {
  return encodeFrame({ streamId, body: { kind: 'data', seq: 0, payload: Buffer.of(0) } });
}

/** A websocket frame with a mask of zeros. */
function frame(first: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const { length } = payload;
  const size = length < 126 ? [0x80 | length] : [0xfe, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(first, ...size, 0, 0, 0, 0), payload]);
}

function repeated(bytes: Buffer): Buffer {
  return Buffer.concat(Array(Math.ceil((64 * 1024) / bytes.length)).fill(bytes));
}
