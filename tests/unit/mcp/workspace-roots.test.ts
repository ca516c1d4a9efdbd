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

const rootsOf = (...args: Parameters<typeof choose>) => choose(...args).roots;

test('the roots of the client come first, then those of the user, then the directory', () => {
  expect(rootsOf([outside, inside])).toEqual([outside, inside]);
  expect(rootsOf([], [inside])).toEqual([inside]);
  expect(rootsOf([])).toEqual([own()]);
});

test('roots of the client count only within those of the user', () => {
  expect(rootsOf([inside, outside], [own()])).toEqual([inside]);
  expect(rootsOf([outside], [own()])).toEqual([own()]);
  expect(logged).toHaveLength(2);
});

test('roots of the client count only within the directory where they are confined', () => {
  expect(rootsOf([outside, inside], [], { confineRoots: true })).toEqual([inside]);
});

test('a link out of a root is not within it, and a directory beside it with the same beginning is not either', () => {
  const link = join(own(), 'link');
  symlinkSync(outside, link);
  mkdirSync(`${own()}-other`);
  expect(rootsOf([link, `${own()}-other`], [own()])).toEqual([own()]);
});

test('links of the client are resolved once, and a directory that became a link is refused', () => {
  const link = join(folder, 'link');
  symlinkSync(inside, link);
  expect(rootsOf([link])).toEqual([inside]);
  renameSync(inside, `${inside}-moved`);
  symlinkSync(outside, inside);
  expect(() => choose([], [inside])).toThrow(/leads elsewhere now/);
  expect(() => choose([], [], { directory: inside })).toThrow(NoWorkspaceError);
});

test('what is no directory of this machine is left out', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  const roots = [file, join(folder, 'missing'), 'https://example.com/', 'file://elsewhere/tmp', inside];
  expect(rootsOf(roots)).toEqual([inside]);
});

test('a client whose roots cannot be used gets no other directory unless the user has chosen one', () => {
  const missing = join(folder, 'missing');
  expect(() => choose([missing])).toThrow(NoWorkspaceError);
  expect(() => choose([missing])).toThrow(`The root ${missing} of the client is not used: it does not exist`);
  expect(choose([missing, outside], [own()])).toEqual({
    roots: [own()],
    unused: `The root ${missing} of the client is not used: it does not exist on the machine of exec-server. The root ${outside} of the client is not used: it is outside of ${own()}.`,
    isElsewhere: true,
  });
  expect(choose([inside, outside], [own()])).toMatchObject({ roots: [inside], isElsewhere: false });
  expect(choose([outside, inside], [own()])).toMatchObject({ roots: [inside], isElsewhere: true });
  expect(choose([inside], [own()])).toEqual({ roots: [inside], unused: null, isElsewhere: false });
  expect(logged.join()).toContain(missing);
});

test('only so many roots are used', () => {
  expect(rootsOf(Array.from({ length: MAX_CLIENT_ROOTS + 1 }, () => inside))).toHaveLength(MAX_CLIENT_ROOTS);
});

test('the root directory is no implicit workspace, but may be chosen', () => {
  const started = { directory: '/' };
  expect(() => choose([], [], started)).toThrow(NoWorkspaceError);
  expect(rootsOf([inside], [], started)).toEqual([inside]);
  expect(rootsOf([], ['/'], started)).toEqual(['/']);
  expect(rootsOf(['/', inside])).toEqual([inside]);
  expect(() => choose(['/'])).toThrow(/is the root directory/);
  expect(rootsOf([], [], { ...started, sandbox: 'off' })).toEqual(['/']);
});
