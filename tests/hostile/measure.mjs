// Measures rows of the table and floods.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { HostileClient } from './client.mjs';
import { slowness } from './slowness.mjs';

/**
 * Sends the requests of one row and measures how long they block the server, including the end of their connection.
 * @param {import('./requests.mjs').Row} row
 * @param {{ url: string, fixture: import('./fixture.mjs').Fixture, watch: import('./loop-watch.mjs').LoopWatch }} context
 */
export async function measureRow(row, { url, fixture, watch }) {
  mkdirSync(join(fixture.folder, 'scratch'), { recursive: true });
  const { binary: binaryMessages = false } = row;
  const client = row.handshake
    ? await HostileClient.open(url, { binaryMessages })
    : await HostileClient.connect(url);
  const answers = [];
  try {
    await row.entry?.before?.(client, fixture);
    const send = senderOf(row, client, fixture);
    const measured = await watch.measure(async () => {
      for await (const answer of send()) answers.push(answer);
      await client.close();
    });
    return { name: row.name, ...measured, answers, refused: refusedAnswers(row, answers) };
  } finally {
    client.socket.terminate();
  }
}

/** Builds the messages before they are measured: that takes longer than their answers. */
function senderOf(row, client, fixture) {
  if (row.message !== undefined) return messageSender(row.message(), client, row.binary);
  const texts = row.entry
    .requests(fixture)
    .map((params, index) => JSON.stringify({ id: index + 1, method: row.method, params }));
  return async function* send() {
    for (const [index, text] of texts.entries()) yield await client.exchange(index + 1, text);
  };
}

/** A message may have any id or none, so that the answer to the next request shows that it was handled. */
function messageSender(message, client, binary) {
  return async function* send() {
    client.send(message, binary);
    yield await client.exchange(2, '{"id":2,"method":"environment/status"}');
  };
}

function refusedAnswers({ entry }, answers) {
  return entry?.answer === 'result' ? answers.filter(({ kind }) => kind !== 'result') : [];
}

/** How long a flood lasts: as long as the longest block that is allowed, and every flood repeats itself many times. */
const FLOOD_MS = 500;

/**
 * Floods the server and measures how long another client waits.
 * @param {(context: import('./floods.mjs').FloodContext) => Promise<void>} flood
 * @param {{ url: string, fixture: import('./fixture.mjs').Fixture, watch: import('./loop-watch.mjs').LoopWatch }} context
 */
export function measureFlood(flood, { url, fixture, watch }) {
  return watch.measure(() => {
    const endsAt = performance.now() + FLOOD_MS;
    return flood({ url, fixture, goesOn: () => performance.now() < endsAt });
  });
}

/** How long one request at the documented limits may block the event loop, and how long another client may wait during a flood. */
export const MAX_REQUEST_BLOCK_MS = 100;
export const MAX_FLOOD_BLOCK_MS = 500;

/**
 * How often a block that is too long is measured. What a request causes, it causes every time. A collection of the garbage that others
 * left, or a host that stops the whole machine, does not repeat.
 */
const MEASUREMENTS = 3;

/**
 * The measurement with the shortest block, of at most three. Repeated ones are scaled to the machine that the limits were set on.
 * @template {{ blockMs: number }} Measured
 * @param {number} limitMs @param {() => Promise<Measured>} measure @returns {Promise<Measured>}
 */
export async function shortestBlock(limitMs, measure) {
  let best = await measure();
  for (let count = 1; count < MEASUREMENTS && best.blockMs > limitMs; count++) {
    const measured = await measure();
    const blockMs = measured.blockMs / slowness();
    if (blockMs < best.blockMs) best = { ...measured, blockMs };
  }
  return best;
}
