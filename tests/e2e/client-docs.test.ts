import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import * as entry from '../../src/client/index.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const file = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const PAGE = read('docs/client.md');
const EXAMPLES = [...PAGE.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]!);

let folder: string;
let server: TestServer;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'client-docs-'));
  server = await startServer();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Runs an example against this checkout and a server. Returns what it prints. */
async function run(example: string): Promise<unknown[][]> {
  const printed: unknown[][] = [];
  vi.spyOn(console, 'log').mockImplementation((...values) => printed.push(values));
  const program = join(folder, 'example.mjs');
  const command = [file('dist/bin/exec-server.cjs'), '--listen', 'stdio'];
  writeFileSync(
    program,
    example
      .replace("'exec-server/client'", JSON.stringify(file('src/client/index.ts')))
      .replace("'exec-server/client/stdio'", JSON.stringify(file('src/client/stdio.ts')))
      .replace("'ws://127.0.0.1:4000'", JSON.stringify(server.url))
      .replace("program: 'exec-server'", `program: ${JSON.stringify(process.execPath)}`)
      .replace("['--listen', 'stdio']", JSON.stringify(command))
      .replaceAll('file:///tmp/', `file://${folder}/`),
  );
  await import(program);
  return printed;
}

const PRINTED: readonly [string, unknown[][]][] = [
  ['a program', [[0, 'a\nb\n']]],
  ['a server on stdio', [['hello\n']]],
  ['streams', [['stdout', 'ONE\n'], [0]]],
  ['files', [['remember']]],
  ['a network policy', [['a.example', 'deny', 'a.example is not needed'], ['blocked']]],
];

test.each(PRINTED.map(([name, printed], index) => [name, EXAMPLES[index]!, printed] as const))(
  'the example of %s runs',
  async (_name, example, printed) => {
    expect(await run(example)).toEqual(printed);
  },
);

test('every example is run', () => {
  expect(EXAMPLES).toHaveLength(PRINTED.length);
});

test('the page explains what the entry exports', () => {
  const names = Object.keys(entry);
  expect(names.length).toBeGreaterThan(5);
  for (const name of names) expect(PAGE).toMatch(new RegExp(`\\b${name}\\b`));
});

test('the page explains every kind of error, and no other', () => {
  const kinds = [...read('src/client/errors.ts').matchAll(/^ {2}\| '(\w+)'/gm)].map((match) => match[1]!);
  const rows = PAGE.slice(PAGE.indexOf('| kind |')).trimEnd().split('\n').slice(2);
  const explained = rows.flatMap((row) =>
    [...row.split('|')[1]!.matchAll(/`(\w+)`/g)].map((match) => match[1]),
  );
  expect(explained.toSorted()).toEqual(kinds.toSorted());
});
