import {
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { MAX_CLIENT_ROOTS } from '../../../src/mcp/limits.ts';
import { chooseRoots, NoWorkspaceError } from '../../../src/mcp/workspace-roots.ts';
import { createLogger } from '../../../src/observability/log.ts';

let folder: string;
let inside: string;
let outside: string;
let logged: string[];

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'workspace-roots-')));
  inside = join(folder, 'own', 'inside');
  outside = join(folder, 'outside');
  for (const path of [inside, outside]) mkdirSync(path, { recursive: true });
  logged = [];
});
afterEach(() => rmSync(folder, { recursive: true }));

const own = () => join(folder, 'own');

function choose(paths: readonly string[], given: readonly string[] = [], more: object = {}) {
  const log = createLogger('warn', (line) => logged.push(line));
  const options = {
    directory: own(),
    confineRoots: false,
    sandbox: 'workspace-write',
    log,
    ...more,
  } as const;
  return chooseRoots(
    paths.map((path) => (path.includes(':') ? path : pathToFileURL(path).href)),
    given,
    options,
  );
}

test('the roots of the client come first, then those of the user, then the directory', () => {
  expect(choose([outside, inside])).toEqual([outside, inside]);
  expect(choose([], [inside])).toEqual([inside]);
  expect(choose([])).toEqual([own()]);
});

test('roots of the client count only within those of the user', () => {
  expect(choose([inside, outside], [own()])).toEqual([inside]);
  expect(choose([outside], [own()])).toEqual([own()]);
  expect(logged).toHaveLength(2);
});

test('roots of the client count only within the directory where they are confined', () => {
  expect(choose([outside, inside], [], { confineRoots: true })).toEqual([inside]);
});

test('a link out of a root is not within it, and a directory beside it with the same beginning is not either', () => {
  const link = join(own(), 'link');
  symlinkSync(outside, link);
  mkdirSync(`${own()}-other`);
  expect(choose([link, `${own()}-other`], [own()])).toEqual([own()]);
});

test('links of the client are resolved once, and a directory that became a link is refused', () => {
  const link = join(folder, 'link');
  symlinkSync(inside, link);
  expect(choose([link])).toEqual([inside]);
  renameSync(inside, `${inside}-moved`);
  symlinkSync(outside, inside);
  expect(() => choose([], [inside])).toThrow(/leads elsewhere now/);
  expect(() => choose([], [], { directory: inside })).toThrow(NoWorkspaceError);
});

test('what is no directory of this machine is left out', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  const roots = [file, join(folder, 'missing'), 'https://example.com/', 'file://elsewhere/tmp', inside];
  expect(choose(roots)).toEqual([inside]);
});

test('only so many roots are used', () => {
  expect(choose(Array.from({ length: MAX_CLIENT_ROOTS + 1 }, () => inside))).toHaveLength(MAX_CLIENT_ROOTS);
});

test('the root directory is no implicit workspace, but may be chosen', () => {
  const started = { directory: '/' };
  expect(() => choose([], [], started)).toThrow(NoWorkspaceError);
  expect(choose([inside], [], started)).toEqual([inside]);
  expect(choose([], ['/'], started)).toEqual(['/']);
  expect(choose(['/', inside])).toEqual([inside]);
  expect(choose(['/'])).toEqual([own()]);
  expect(choose([], [], { ...started, sandbox: 'off' })).toEqual(['/']);
});
