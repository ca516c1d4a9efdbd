import { expect, test } from 'vitest';
import { uptimeMs } from '../../../src/base/uptime.ts';

test('uptimeMs counts milliseconds', async () => {
  const before = uptimeMs();
  await new Promise((resolve) => setTimeout(resolve, 20));
  const elapsed = uptimeMs() - before;
  expect(elapsed).toBeGreaterThan(15);
  expect(elapsed).toBeLessThan(10_000);
});
