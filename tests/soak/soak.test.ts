import { expect, test } from 'vitest';
import { runSoak } from './soak.mjs';

// A short run with few clients. `npm run soak` runs 500 for minutes.
test('clients that are cut off and resume lose nothing and leave nothing behind', async () => {
  const { drops, restarts } = await runSoak({ seconds: 5, connections: 80, processes: 30 });
  expect(drops).toBeGreaterThan(20);
  expect(restarts).toBeGreaterThan(0);
}, 120_000);
