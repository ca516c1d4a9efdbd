import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { expect, test } from 'vitest';

test('a bundle contains only the used part of zod, without its locales', async () => {
  const { metafile } = await build({
    entryPoints: [fileURLToPath(new URL('../../../src/protocol/registry.ts', import.meta.url))],
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    format: 'cjs',
    logLevel: 'silent',
  });
  const [output] = Object.values(metafile.outputs);
  const used = Object.keys(output!.inputs).filter((path) => path.includes('/zod/'));
  expect(used.some((path) => path.endsWith('/core/schemas.js'))).toBe(true);
  expect(used.filter((path) => path.includes('/locales/'))).toEqual([]);
});
