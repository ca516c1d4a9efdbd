import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const SCRIPT = fileURLToPath(new URL('../../../scripts/check-walks.mjs', import.meta.url));
const OTHERS = [1, 2, 3, 4, 5]
  .map((number) => `### Walk ${number} (1 files)\n\n1. \`src/a.ts\`: does it.\n`)
  .join('\n');

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'check-walks-'));
  mkdirSync(join(root, 'src'));
  for (const name of ['a.ts', 'b.ts']) writeFileSync(join(root, 'src', name), '');
});
afterEach(() => rmSync(root, { recursive: true }));

function check(walk: string): { status: number | null; lines: string[] } {
  writeFileSync(join(root, 'ARCHITECTURE.md'), `${walk}\n${OTHERS}`);
  const { status, stdout } = spawnSync(process.execPath, [SCRIPT, root], { encoding: 'utf8' });
  return { status, lines: stdout.split('\n').slice(0, -1) };
}

test('accepts walks whose files exist', () => {
  const outcome = check('### Start (2 files)\n\n1. `src/a.ts`: begins.\n2. `src/b.ts`: ends.');
  expect(outcome).toEqual({ status: 0, lines: [] });
});

test.each([
  [
    'a missing file',
    '### Start (1 files)\n\n1. `src/gone.ts`: begins.',
    'ARCHITECTURE.md:3: "Start" names src/gone.ts, which does not exist',
  ],
  [
    'a wrong count',
    '### Start (3 files)\n\n1. `src/a.ts`: begins.',
    'ARCHITECTURE.md:1: "Start" says 3 files and lists 1',
  ],
  [
    'a file listed twice',
    '### Start (2 files)\n\n1. `src/a.ts`: begins.\n2. `src/a.ts`: ends.',
    'ARCHITECTURE.md:4: "Start" names src/a.ts twice',
  ],
  [
    'a wrong step number',
    '### Start (1 files)\n\n2. `src/a.ts`: begins.',
    'ARCHITECTURE.md:3: step 1 of "Start" has the number 2',
  ],
  ['a missing walk', '', 'ARCHITECTURE.md:1: there are 5 walks instead of 6'],
])('reports %s', (_name, walk, problem) => {
  expect(check(walk)).toEqual({ status: 1, lines: [problem] });
});

test('counts the files that also run', () => {
  const walk = '### Start (2 files)\n\n1. `src/a.ts`: begins.\n\nAlso run: `src/b.ts`.';
  expect(check(walk)).toEqual({ status: 0, lines: [] });
  expect(check(walk.replace('b.ts', 'gone.ts')).lines).toEqual([
    'ARCHITECTURE.md:5: "Start" names src/gone.ts, which does not exist',
  ]);
});

test('reports a step without a file', () => {
  const outcome = check('### Start (0 files)\n\n1. src/a.ts begins.');
  expect(outcome.lines).toEqual([
    'ARCHITECTURE.md:3: a step begins with a number and a file: 1. `src/x.ts`: what it does',
  ]);
});
