import { expect, test } from 'vitest';
import { limitLinks } from '../../../console/src/views/terminal/link-limit.ts';

/** Returns the function that says whether the terminal shows the parameters of a link as plain text. */
function limited(): (data: string) => boolean {
  let refuses: (data: string) => boolean = () => false;
  const registerOscHandler = (_code: number, handler: typeof refuses) => {
    refuses = handler;
    return { dispose() {} };
  };
  limitLinks({ parser: { registerOscHandler } } as unknown as Parameters<typeof limitLinks>[0]);
  return (data) => refuses(data);
}

test('a link is text when its address is too long, or when there were too many; the end of a link always counts', () => {
  const refuses = limited();
  expect(refuses(';https://short.example')).toBe(false);
  expect(refuses(`;https://long.example/${'a'.repeat(2_083)}`)).toBe(true);
  let links = 0;
  while (!refuses(`id=${links};https://short.example`)) links++;
  expect(links).toBeGreaterThan(100_000);
  expect(links).toBeLessThan(300_000);
  expect(refuses(';https://short.example/;')).toBe(true);
  expect(refuses(';')).toBe(false);
  expect(refuses('id=1;')).toBe(false);
});
