import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { NODE_VERSIONS } from '../../../scripts/nodes.mjs';

const read = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../../../${name}`, import.meta.url)), 'utf8');

test('the package, the documents and the tests support the same versions of Node', () => {
  const lines = NODE_VERSIONS.map((version) => version.split('.')[0]!);
  expect(NODE_VERSIONS[0]).toMatch(/^20\.19\./);
  const range: string = JSON.parse(read('package.json')).engines.node;
  const first = range.split(' || ').map((part) => /^(?:\^|>=)(\d+)\.(\d+)\.0$/.exec(part)!);
  expect(first.map(([, line]) => line)).toEqual(lines);
  const names = first.map(([, line, minor]) => (minor === '0' ? line : `${line}.${minor}`));
  const text = `Node ${names.slice(0, -1).join(', ')} or ${names.at(-1)} on Linux`;
  for (const page of ['README.md', 'docs/getting-started.md', 'CONTRIBUTING.md'])
    expect(read(page)).toContain(text);
  expect(read('.ci/run')).toMatch(/^npm test$/m);
});
