// Sends random variants of the table of hostile requests to a server with the documented limits and measures its event loop.

import {
  FLOODS,
  MAX_FLOOD_BLOCK_MS,
  MAX_REQUEST_BLOCK_MS,
  measureFlood,
  measureRow,
  ROWS,
  Stage,
  shortestBlock,
} from '../hostile/index.mjs';
import { mutatedRow } from '../hostile/mutate.mjs';
import { Random } from './random.mjs';

/**
 * @param {object} options
 * @param {number} options.seed
 * @param {() => boolean} options.goOn Called before each request.
 * @returns {Promise<number>} The number of rows and floods that were sent. Rejects with the first block that is too long.
 */
export async function runHostile({ seed, goOn }) {
  const stage = await Stage.open();
  try {
    let done = 0;
    for (; goOn(); done++) await attack(stage, seed, done);
    if (stage.errors.length > 0) throw new Error(`the server logged an error:\n${stage.errors.join('\n')}`);
    return done;
  } finally {
    await stage.close();
  }
}

async function attack(stage, seed, index) {
  const random = new Random(seed, index);
  const [flood] = random.chance(0.1) ? [random.pick(Object.entries(FLOODS))] : [];
  const row = random.pick(ROWS);
  const limitMs = flood ? MAX_FLOOD_BLOCK_MS : MAX_REQUEST_BLOCK_MS;
  // Every measurement makes the same changes.
  const measure = () =>
    flood ? measureFlood(flood[1], stage) : measureRow(mutatedRow(new Random(seed, index), row), stage);
  const { blockMs } = await shortestBlock(limitMs, measure);
  if (blockMs < limitMs) return;
  const name = flood?.[0] ?? row.name;
  throw new Error(
    `request ${index} of seed ${seed} blocked the event loop for ${blockMs.toFixed(0)} ms (${name})`,
  );
}
