import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { NODE_VERSIONS } from '../../../scripts/nodes.mjs';

const read = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../../../${name}`, import.meta.url)), 'utf8');

test('the package, the documents and the tests support the same versions of Node', () => {
  const lines = NODE_VERSIONS.map((version) => Number(version.split('.')[0]));
  expect(NODE_VERSIONS[0]).toMatch(/^20\.19\./);
  const range = lines.map((line, index) => {
    if (index === lines.length - 1) return `>=${line}.0.0`;
    return index === 0 ? '^20.19.0' : `^${line}.0.0`;
  });
  expect(JSON.parse(read('package.json')).engines.node).toBe(range.join(' || '));
  const text = `Node 20.19, ${lines.slice(1, -1).join(', ')} or ${lines.at(-1)} on Linux`;
  for (const page of ['README.md', 'docs/getting-started.md', 'CONTRIBUTING.md'])
    expect(read(page)).toContain(text);
  expect(read('.ci/run')).toMatch(/^npm test$/m);
});
