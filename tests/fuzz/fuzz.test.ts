import { expect, test } from 'vitest';
import { runFuzz } from './fuzz.mjs';

// The seed is fixed, so that a failure is reproducible. `npm run fuzz` uses other seeds and runs longer.
test('serves well-behaved clients during attacks, and frees everything afterwards', async () => {
  const { kinds } = await runFuzz({ seed: 20_260, attacks: 300 });
  for (const kind of ['http', 'frames', 'sizes', 'texts', 'methods']) {
    expect(kinds[kind], kind).toBeGreaterThan(10);
  }
});
