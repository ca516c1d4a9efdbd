import { expect, test } from 'vitest';
import { limitResets } from '../../../console/src/views/terminal/reset-limit.ts';

test('ignores resets beyond the limit until the next turn', async () => {
  let ignores: () => boolean = () => false;
  const registerEscHandler = (_id: unknown, handler: typeof ignores) => {
    ignores = handler;
    return { dispose() {} };
  };
  limitResets({ parser: { registerEscHandler } } as unknown as Parameters<typeof limitResets>[0]);
  const done = () => Array.from({ length: 1_000 }, () => ignores()).filter((ignored) => !ignored).length;
  const first = done();
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThan(200);
  await new Promise((resolve) => setTimeout(resolve));
  expect(done()).toBe(first);
});
