import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { encodeFrame } from '../../src/relay/frames/frame.ts';
import { MAX_FRAME_BYTES } from '../../src/relay/limits.ts';
import { MAX_HARNESSES_PER_ENVIRONMENT, MAX_STREAM_ID_CHARS } from '../../src/relay/service/limits.ts';
import { Environment, someKey, type TestPeer } from '../unit/relay/service/relay-fixture.ts';
import { relayFolder, startNode } from './relay-nodes.ts';

const FLOODER = fileURLToPath(new URL('../fixtures/relay-flood.mjs', import.meta.url));
const FLOOD_MS = 2_000;
/** The target is 500 ms. Here the relay, the flooder and other tests share two cores. */
const LONGEST_ANSWER_MS = 1_500;

const FLOODS: readonly (readonly [string, Buffer])[] = [
  ['empty pings', repeated(frame(0x89))],
  ['empty pongs', repeated(frame(0x8a))],
  ['fragments without an end', Buffer.concat([frame(0x02), repeated(frame(0x00))])],
  // The relay answers each with a reset.
  ['streams that are refused', repeated(frame(0x82, record('x'.repeat(MAX_STREAM_ID_CHARS + 1))))],
  ['tiny records', repeated(frame(0x82, record('stream')))],
];

test.each(FLOODS)('a flood of %s by one environment does not delay another', async (_name, bytes) => {
  const { url } = await startNode(relayFolder());
  const other = await pair(url);
  await other.roundTrip();
  await flood(url, bytes, 'repeat');
  const times: number[] = [];
  for (const end = performance.now() + FLOOD_MS; performance.now() < end; ) {
    const before = performance.now();
    await other.roundTrip();
    times.push(performance.now() - before);
  }
  console.log(_name, times.length, Math.max(...times));
  expect(Math.max(...times)).toBeLessThan(LONGEST_ANSWER_MS);
});

/** An executor that sends every frame back, and a harness. */
async function pair(url: string) {
  const environment = new Environment(url, 'other');
  const executor = await environment.executor();
  const harness = await environment.harness();
  let [sent, returned] = [0, 0];
  return {
    roundTrip: async () => {
      harness.record('stream', sent++);
      executor.send((await executor.hasReceived(sent))[sent - 1]!);
      returned++;
      await harness.hasReceived(returned);
    },
  };
}

/** Starts the flood of all harnesses that an environment may have. */
async function flood(url: string, bytes: Buffer, mode: 'once' | 'repeat'): Promise<void> {
  const environment = new Environment(url, 'flood');
  const executorUrl: string = (await environment.register(someKey())).body.url;
  const harnessUrl = await harnessUrlOf(environment, executorUrl);
  const count = String(MAX_HARNESSES_PER_ENVIRONMENT);
  const child = spawn(process.execPath, [FLOODER, count, harnessUrl, executorUrl, mode], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  child.stdin.end(bytes);
  await Promise.race([
    once(child.stdout, 'data'),
    exited.then(() => {
      throw new Error('the flooder has ended');
    }),
  ]);
}

/** The registry knows a harness's URL only while the executor is connected. The flooder takes over from this executor. */
async function harnessUrlOf(environment: Environment, executorUrl: string): Promise<string> {
  const { connectFrameSocket } = await import('../../src/transport/frame-socket.ts');
  const executor = await connectFrameSocket(executorUrl);
  const { body } = await environment.connect(someKey());
  executor.drop();
  return body.url;
}

function record(streamId: string): Uint8Array {
  return encodeFrame({ streamId, body: { kind: 'data', seq: 0, payload: Buffer.of(0) } });
}

/** A masked websocket frame with a mask of zeros. `length` is what its header announces. */
function frame(first: number, payload: Uint8Array = Buffer.alloc(0), length = payload.length): Buffer {
  const header = length < 126 ? Buffer.of(first, 0x80 | length) : Buffer.of(first, 0xff, 0, 0, 0, 0, 0, 0, 0, 0);
  if (length >= 126) header.writeUInt32BE(length, 6);
  return Buffer.concat([header, Buffer.alloc(4), payload]);
}

function repeated(bytes: Buffer): Buffer {
  return Buffer.concat(Array(Math.ceil((64 * 1024) / bytes.length)).fill(bytes));
}
