import { expect, test } from 'vitest';
import { runFuzz } from './fuzz.mjs';

// The seed is fixed, so that a failure here is one that everybody sees; `npm run fuzz` takes others and goes on for longer.
test('hostile clients neither harm honest ones nor leave anything behind', async () => {
  const { kinds } = await runFuzz({ seed: 20_260, attacks: 300 });
  for (const kind of ['http', 'frames', 'sizes', 'texts', 'methods']) {
    expect(kinds[kind], kind).toBeGreaterThan(10);
  }
});
