import { linkSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  base64,
  HOSTILE_GLOBS,
  HOSTILE_LONG_GLOBS,
  HOSTILE_PATH_GLOBS,
  hostileUris,
  TOO_MANY_GLOBS,
} from './texts.mjs';

const MIB = 1024 * 1024;

/** The hostile URIs as one parameter of a method. */
function uris(name, rest = {}) {
  return {
    name: `hostile URIs as ${name}`,
    requests: (fixture) => urisOf(fixture).map((uri) => ({ ...rest, [name]: uri })),
  };
}

function urisOf(fixture) {
  return hostileUris(fixture.uri('scratch'));
}

const WALK = {
  maxDepth: 64,
  maxDirectories: 10_000,
  maxEntries: 50_000,
  followDirectorySymlinks: true,
};

/** Opens a file as the handle `h`. */
function opened(mode) {
  return async (client, fixture) => {
    const path = fixture.uri(mode === 'read' ? 'large' : 'scratch/opened');
    await client.call('fs/open', { handleId: 'h', path, mode });
  };
}

/** Requests of `fs/*` and of discovery. See `requests.mjs` for the form. */
export const FILE_REQUESTS = {
  'fs/readFile': [
    uris('path'),
    {
      name: 'a large file',
      requests: (fixture) => [{ path: fixture.uri('large') }],
      answer: 'result',
    },
  ],
  'fs/writeFile': [
    uris('path', { dataBase64: '' }),
    {
      name: 'the largest message',
      requests: (fixture) => [{ path: fixture.uri('scratch/written'), dataBase64: base64(47 * MIB) }],
      answer: 'result',
    },
    {
      name: 'base64 that is wrong at the end',
      requests: (fixture) => [{ path: fixture.uri('scratch/wrong'), dataBase64: `${base64(47 * MIB)}QQ=A` }],
    },
    {
      name: 'base64 with an escape at the end',
      requests: (fixture) => [{ path: fixture.uri('scratch/wrong'), dataBase64: `${base64(47 * MIB)}\n` }],
    },
  ],
  'fs/createDirectory': [
    uris('path'),
    {
      name: 'a path of many directories',
      requests: (fixture) => [{ path: fixture.uri('scratch', 'd/'.repeat(1_900)), recursive: true }],
    },
  ],
  'fs/getMetadata': [
    uris('path'),
    { name: 'a link to itself', requests: (fixture) => [{ path: fixture.uri('self') }] },
  ],
  'fs/canonicalize': [
    uris('path'),
    { name: 'a deep path', requests: (fixture) => [{ path: fixture.uri('deep') }], answer: 'result' },
  ],
  'fs/readDirectory': [
    uris('path'),
    {
      name: 'the widest directory',
      requests: (fixture) => [{ path: fixture.uri('wide') }],
      answer: 'result',
    },
  ],
  'fs/walk': [
    uris('path', { options: WALK }),
    {
      name: 'wide, deep and long trees',
      requests: (fixture) =>
        ['wide', 'tree', 'long', 'deep'].map((name) => ({ path: fixture.uri(name), options: WALK })),
      answer: 'result',
    },
  ],
  'fs/remove': [
    uris('path'),
    {
      name: 'a tree of many files',
      before: async (_client, fixture) => createTree(join(fixture.folder, 'scratch/removed'), 5_000),
      requests: (fixture) => [{ path: fixture.uri('scratch/removed') }],
      answer: 'result',
    },
  ],
  'fs/copy': [
    uris('sourcePath', { destinationPath: 'file:///nowhere/x', recursive: true }),
    uris('destinationPath', { sourcePath: 'file:///nowhere/x', recursive: true }),
    {
      name: 'a tree of many files',
      before: async (_client, fixture) => createTree(join(fixture.folder, 'scratch/source'), 2_000),
      requests: (fixture) => [
        {
          sourcePath: fixture.uri('scratch/source'),
          destinationPath: fixture.uri('scratch/copy'),
          recursive: true,
        },
      ],
      answer: 'result',
    },
  ],
  'fs/rename': [
    uris('sourcePath', { destinationPath: 'file:///nowhere/x' }),
    uris('destinationPath', { sourcePath: 'file:///nowhere/x' }),
  ],
  'fs/list': [
    {
      name: 'hostile URIs',
      requests: (fixture) => urisOf(fixture).map((uri) => ({ paths: Array(60).fill(uri) })),
    },
    {
      name: 'wide, deep and long trees',
      requests: (fixture) =>
        ['wide', 'tree', 'long', 'deep'].map((name) => ({ paths: [fixture.uri(name)], recursive: true })),
      answer: 'result',
    },
    {
      name: 'the most paths',
      requests: (fixture) => [{ paths: Array(1_000).fill(fixture.uri('tree')), recursive: true }],
      answer: 'result',
    },
  ],
  'fs/setAttributes': [uris('path', { mode: 0o600, modifiedAtMs: 0 })],
  'fs/createLink': [
    uris('path', { target: 'x' }),
    uris('target', { path: 'file:///nowhere/x' }),
    {
      name: 'a link in a wide directory',
      requests: (fixture) => [{ path: fixture.uri('wide/link'), target: '%41'.repeat(4_000), replace: true }],
      answer: 'result',
    },
  ],
  'fs/open': [
    uris('path', { handleId: 'h' }),
    {
      name: 'a replacement in a wide directory',
      requests: (fixture) => [{ handleId: 'h', path: fixture.uri('wide/replaced'), mode: 'atomicReplace' }],
      answer: 'result',
    },
  ],
  'fs/readBlock': [
    {
      name: 'the largest block',
      before: opened('read'),
      requests: () => [{ handleId: 'h', offset: 0, len: MIB }],
      answer: 'result',
    },
    { name: 'a long id', requests: () => [{ handleId: 'h'.repeat(3 * MIB), offset: 0, len: 1 }] },
  ],
  'fs/writeBlock': [
    {
      name: 'the largest block',
      before: opened('replace'),
      requests: () => [{ handleId: 'h', offset: 0, chunk: base64(MIB) }],
      answer: 'result',
    },
    {
      name: 'a block that is far too large',
      before: opened('replace'),
      requests: () => [{ handleId: 'h', offset: 0, chunk: base64(47 * MIB) }],
    },
  ],
  'fs/close': [{ name: 'a long id', requests: () => [{ handleId: 'h'.repeat(3 * MIB) }] }],
  'fs/watchMissing': [
    {
      name: 'hostile URIs',
      requests: (fixture) =>
        urisOf(fixture).map((uri, index) => ({ watchId: index + 1, missing: Array(60).fill(uri) })),
    },
    {
      name: 'the most paths',
      requests: (fixture) => [
        {
          watchId: 1,
          missing: Array.from({ length: 64 }, (_, index) =>
            fixture.uri('deep', `x${index}/`.repeat(300), 'y'),
          ),
        },
      ],
    },
    {
      name: 'too many paths',
      requests: () =>
        [4_000, 100_000].map((length, index) => ({
          watchId: index + 1,
          missing: Array(length).fill('file:///nowhere/x'),
        })),
    },
  ],
  'fs/watch': [
    uris('path', { watchId: 'w' }),
    {
      name: 'globs over long names and a tree',
      requests: (fixture) =>
        [HOSTILE_GLOBS, HOSTILE_LONG_GLOBS, HOSTILE_PATH_GLOBS].map((exclude, index) => ({
          watchId: String(index),
          path: fixture.uri(index < 2 ? 'long' : 'tree'),
          exclude,
        })),
      answer: 'result',
    },
    {
      name: 'the widest directory',
      requests: (fixture) => [{ watchId: 'w', path: fixture.uri('wide') }],
      answer: 'result',
    },
    {
      name: 'too many globs',
      requests: (fixture) => [
        { watchId: 'w', path: fixture.uri('deep'), exclude: Array(4_000).fill('{a,b}{c,d}') },
        { watchId: 'w', path: fixture.uri('long'), exclude: TOO_MANY_GLOBS },
        { watchId: 'w', path: fixture.uri('deep'), exclude: ['{a,b}'.repeat(800)] },
        { watchId: 'w', path: fixture.uri('deep'), exclude: [`${'{'.repeat(2_000)}${'}'.repeat(2_000)}`] },
      ],
    },
  ],
  'fs/unwatch': [{ name: 'the longest id', requests: () => [{ watchId: 'w'.repeat(64 * 1024) }] }],
  'fs/hash': [
    {
      name: 'the most files with the longest paths',
      requests: () => [
        { paths: Array(1_000).fill(`file:///${'%41'.repeat(1_300)}`) },
        { paths: Array(1_000).fill('file:///etc/hostname') },
      ],
      answer: 'result',
    },
    {
      name: 'large files',
      requests: (fixture) => [{ paths: Array(1_000).fill(fixture.uri('large')), timeoutMs: 1_000 }],
      answer: 'result',
    },
    { name: 'too many files', requests: () => [{ paths: Array(100_000).fill('') }] },
  ],
  'fs/search': [
    uris('path', { pattern: 'x' }),
    {
      name: 'regular expressions that backtrack',
      requests: (fixture) =>
        ['(a+)+$', '(a|a)*c', '(.*a){20}c', `${'(a?)'.repeat(100)}c`].map((pattern) => ({
          path: fixture.uri('lines'),
          pattern,
          timeoutMs: 1_000,
        })),
    },
    {
      name: 'long patterns',
      requests: (fixture) =>
        [
          'a|'.repeat(8_000),
          '(?:'.repeat(5_000),
          `${'(?:a{100}){100}'.repeat(1_000)}`,
          '\\u'.repeat(5_000),
          'a'.repeat(MIB),
        ].map((pattern) => ({ path: fixture.uri('lines'), pattern, timeoutMs: 1_000 })),
    },
    {
      name: 'the most results',
      requests: (fixture) => [
        { path: fixture.uri('lines'), pattern: 'b', maxResults: 10_000 },
        { path: fixture.uri('tree'), pattern: 'finds', maxResults: 10_000 },
      ],
      answer: 'result',
    },
    {
      name: 'globs over long names and a tree',
      requests: (fixture) =>
        [HOSTILE_GLOBS, HOSTILE_PATH_GLOBS, HOSTILE_LONG_GLOBS].flatMap((globs) => [
          { path: fixture.uri('long'), pattern: 'line', include: globs, timeoutMs: 1_000 },
          { path: fixture.uri('tree'), pattern: 'line', exclude: globs, timeoutMs: 1_000 },
        ]),
      answer: 'result',
    },
  ],
  'capabilityRoots/discoverV1': [
    {
      name: 'hostile URIs',
      requests: (fixture) => [{ roots: urisOf(fixture).map((path) => ({ id: 'r', path })) }],
    },
    {
      name: 'hostile plugins and skills',
      requests: (fixture) => [
        { roots: Array.from({ length: 4 }, () => ({ id: 'r', path: fixture.uri('capabilities') })) },
      ],
      answer: 'result',
    },
    {
      name: 'the most roots, with long ids',
      requests: (fixture) => [
        {
          roots: Array.from({ length: 128 }, () => ({
            id: 'i'.repeat(30 * 1024),
            path: fixture.uri('deep'),
          })),
        },
      ],
    },
    {
      name: 'too many roots',
      requests: (fixture) => [{ roots: Array(4_000).fill({ id: 'r', path: fixture.uri('deep') }) }],
    },
  ],
  'capabilities/discoverV2': [
    uris('cwd'),
    { name: 'hostile skills', requests: (fixture) => [{ cwd: fixture.uri() }], answer: 'result' },
  ],
  'environmentConfig/read': [
    uris('cwd', { configPaths: [], requirementsPaths: [] }),
    {
      name: 'a hostile file and the most paths',
      requests: (fixture) => [
        {
          cwd: fixture.uri('deep', ...Array.from({ length: 64 }, (_, index) => `level-${index}`)),
          configPaths: Array.from({ length: 4_096 }, (_, index) => ['a', `b${index}`, 'c', 'd']),
          requirementsPaths: [],
        },
      ],
      answer: 'result',
    },
    {
      name: 'too many paths',
      requests: (fixture) => [
        { cwd: fixture.uri(), configPaths: Array(100_000).fill(['a']), requirementsPaths: [] },
        { cwd: fixture.uri(), configPaths: [Array(4_000).fill('a')], requirementsPaths: [] },
      ],
    },
  ],
};

/** A tree of names of one file, which take a tenth of the time that files take. */
function createTree(folder, files) {
  const file = `${folder}-file`;
  writeFileSync(file, 'x');
  for (let index = 0; index < files; index++) {
    const inner = join(folder, String(index % 100));
    if (index < 100) mkdirSync(inner, { recursive: true });
    linkSync(file, join(inner, String(index)));
  }
}
