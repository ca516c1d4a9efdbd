import { expect, test } from 'vitest';
import { runSoak } from './soak.mjs';

// A short one with fewer clients; `npm run soak` has 500 of them for minutes.
test('clients that are cut off and come back lose nothing, and leave nothing', async () => {
  const { drops, restarts } = await runSoak({ seconds: 5, connections: 80, processes: 30 });
  expect(drops).toBeGreaterThan(20);
  expect(restarts).toBeGreaterThan(0);
}, 120_000);
