import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';

const SCRIPT = fileURLToPath(new URL('../../../scripts/check-layers.mjs', import.meta.url));
const trees: string[] = [];

afterEach(() => {
  for (const tree of trees.splice(0)) rmSync(tree, { recursive: true });
});

function check(files: Readonly<Record<string, string>>): { status: number | null; lines: string[] } {
  const root = mkdtempSync(join(tmpdir(), 'check-layers-'));
  trees.push(root);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const { status, stdout } = spawnSync(process.execPath, [SCRIPT, root], { encoding: 'utf8' });
  return { status, lines: stdout.split('\n').slice(0, -1) };
}

const violations: readonly { name: string; files: Record<string, string>; report: string[] }[] = [
  {
    name: 'a folder that imports one above it',
    files: {
      'src/rpc/a.ts': "import { x } from '../transport/t.ts';\nimport { y } from '../server/s.ts';\n",
      'src/transport/t.ts': 'export const x = 1;\n',
      'src/server/s.ts': 'export const y = 1;\n',
    },
    report: ['src/rpc/a.ts:2: src/rpc may not import src/server'],
  },
  {
    name: 'base that imports another folder, which may import base',
    files: {
      'src/base/b.ts': "import type { T } from '../protocol/q.ts';\n",
      'src/protocol/p.ts': "import { b } from '../base/c.ts';\n",
      'src/protocol/q.ts': '',
      'src/base/c.ts': '',
    },
    report: [
      'src/base/b.ts:1: src/base may not import src/protocol',
      'src/protocol/p.ts:1: import cycle between folders: src/base -> src/protocol -> src/base',
    ],
  },
  {
    name: 'a value where only types are allowed',
    files: {
      'src/process/a.ts':
        "import type { T } from '../protocol/p.ts';\nimport { type U, v } from '../protocol/p.ts';\n",
      'src/protocol/p.ts': 'export const v = 1;\n',
    },
    report: ['src/process/a.ts:2: src/process may import types only from src/protocol: write `import type`'],
  },
  {
    name: 'anything that imports the command line, also dynamically or by re-export',
    files: {
      'src/testing/a.ts': "export * from '../cli/main.ts';\n",
      'src/index.ts': "\nawait import('./cli/main.ts');\n",
      'src/cli/main.ts': '',
    },
    report: [
      'src/index.ts:2: src/index.ts may not import src/cli',
      'src/testing/a.ts:1: src/testing may not import src/cli',
    ],
  },
  {
    name: 'packages outside their place',
    files: {
      'src/process/spawn.ts': "import koffi from 'koffi';\n",
      'src/native/libc.ts': "import koffi from 'koffi';\nimport 'ws';\n",
      'src/base/b.ts': "import { setTimeout } from 'node:timers/promises';\n",
      'src/protocol/p.ts': "import { z } from 'zod';\nimport 'zod/v4';\nimport { isIP } from 'node:net';\n",
    },
    report: [
      'src/base/b.ts:1: src/base may import no package: node:timers/promises',
      'src/native/libc.ts:2: only src/transport/ may import ws',
      'src/process/spawn.ts:1: only src/native/ may import koffi',
      'src/protocol/p.ts:3: src/protocol may import no package but zod: node:net',
    ],
  },
  {
    name: 'what only the command line may use',
    files: {
      'src/server/a.ts': [
        "import { argv } from 'node:process';",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a template.
        'export const text = `a ${process.stdout.columns} b`;',
        'process.exitCode = 1;',
        'if (text) process.exit(1);',
        'console.log(process.argv);',
        'console.error(text);',
        '',
      ].join('\n'),
      'src/cli/main.ts': 'console.log(process.argv);\n',
    },
    report: [
      'src/server/a.ts:2: only src/cli may use process.stdout',
      'src/server/a.ts:4: only src/cli may use process.exit',
      'src/server/a.ts:5: only src/cli may use console.log',
      'src/server/a.ts:5: only src/cli may use process.argv',
      'src/server/a.ts:1: only src/cli may use process.argv',
    ],
  },
  {
    name: 'signals that Node may collect before they abort',
    files: {
      'src/relay/a.ts': [
        '// Not AbortSignal.any.',
        'const limited = AbortSignal.any([AbortSignal',
        '  .timeout(5)]);',
        'const aborted = AbortSignal.abort();',
        '',
      ].join('\n'),
    },
    report: [
      'src/relay/a.ts:2: AbortSignal.any may never abort: use TimeLimit of src/base/time-limit.ts',
      'src/relay/a.ts:2: AbortSignal.timeout may never abort: use TimeLimit of src/base/time-limit.ts',
    ],
  },
  {
    name: 'undocumented interfaces of Node',
    files: {
      'src/transport/a.ts': [
        'const { _handle: handle } = socket;',
        "handle.owner = process.binding('fs') ?? internalBinding('tcp');",
        'socket._readableState.length = 0;',
        'socket._write = (_chunk, _encoding, done) => done();',
        'const [hidden] = Object.getOwnPropertySymbols(socket);',
        'class Sink extends Writable { override _write(a, b, c) { super._write(a, b, c); } }',
        'socket.destroySoon = () => socket.destroySoon();',
        "socket.once('secure', () => server.on('secureConnection', () => {}));",
        '',
      ].join('\n'),
      'src/native/b.ts': "koffi.load('libc.so.6');\nkoffi.load(null);\nkoffi.load('libuv.so');\n",
    },
    report: [
      'src/native/b.ts:2: native code may only be loaded from libc.so.6',
      'src/native/b.ts:3: native code may only be loaded from libc.so.6',
      'src/transport/a.ts:1: _handle is not a documented interface',
      'src/transport/a.ts:2: process.binding is not a documented interface',
      'src/transport/a.ts:2: internalBinding is not a documented interface',
      'src/transport/a.ts:3: _readableState is not a documented interface',
      'src/transport/a.ts:4: _write is not a documented interface',
      'src/transport/a.ts:5: getOwnPropertySymbols is not a documented interface',
      'src/transport/a.ts:7: destroySoon= does not use a documented interface',
      "src/transport/a.ts:8: once('secure' does not use a documented interface",
    ],
  },
  {
    name: 'a cycle between folders',
    files: {
      'src/testing/a.ts': "import '../server/b.ts';\n",
      'src/server/b.ts': "import type { A } from '../testing/a.ts';\n",
    },
    report: [
      'src/server/b.ts:1: src/server may not import src/testing',
      'src/testing/a.ts:1: import cycle between folders: src/server -> src/testing -> src/server',
    ],
  },
  {
    name: 'portable code that reaches the file system through other files',
    files: {
      'src/client/c.ts': "import '../transport/t.ts';\nimport type { U } from '../transport/u.ts';\n",
      'src/transport/t.ts': "import './v.ts';\n",
      'src/transport/u.ts': "import 'node:child_process';\n",
      'src/transport/v.ts': "\nimport 'fs/promises';\n",
    },
    report: [
      'src/transport/v.ts:2: src/client must run in a browser but reaches node:fs/promises: src/client/c.ts -> src/transport/t.ts -> src/transport/v.ts',
    ],
  },
  {
    name: 'portable code that imports the entry for Node alone',
    files: {
      'src/client/stdio.ts': "import '../transport/command.ts';\n",
      'src/client/browser.ts': "export * from './stdio.ts';\n",
      'src/transport/command.ts': "import 'node:child_process';\n",
    },
    report: [
      'src/transport/command.ts:1: src/client must run in a browser but reaches node:child_process: src/client/browser.ts -> src/client/stdio.ts -> src/transport/command.ts',
    ],
  },
  {
    name: 'folders without a rule, and imports from outside src',
    files: {
      'src/utils/a.ts': '',
      'src/helpers.ts': '',
      'src/server/a.ts': "import '../../scripts/x.mjs';\nimport 'exec-server/protocol';\n",
    },
    report: [
      'src/helpers.ts:1: src/helpers.ts is not listed in scripts/layers.mjs',
      'src/server/a.ts:1: imports scripts/x.mjs, which is outside src',
      'src/server/a.ts:2: imports its own package by name: use a relative path',
      'src/utils/a.ts:1: src/utils is not listed in scripts/layers.mjs',
    ],
  },
  { name: 'a tree without sources', files: {}, report: ['src:1: contains no TypeScript'] },
];

test.each(violations)('reports $name', ({ files, report }) => {
  expect(check(files)).toEqual({ status: 1, lines: report });
});

test('is not misled by comments, strings, templates and regular expressions', () => {
  const text = [
    "// import '../server/s.ts';",
    "/* process.exit(1); import('../cli/main.ts') */",
    `const a = "import { x } from '../server/s.ts'"; const q = 'it\\'s';`,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a template.
    "const b = `process.exit ${a + `${'}'} console.log`} import x from '../cli/main.ts'`;",
    `const c = /'process.exit[/"]/.test(a) ? 4 / 2 : 1 / 3; // ' process.argv`,
    "import type from '../protocol/p.ts';",
    'export {};',
    '',
  ].join('\n');
  expect(check({ 'src/rpc/a.ts': text, 'src/protocol/p.ts': '' })).toEqual({ status: 0, lines: [] });
});

test('lets files for Node alone load what browsers do not have', () => {
  const files = {
    'src/client/stdio.ts': "import 'node:child_process';\n",
    'src/client/client.ts': "import './files/node-files.ts';\n",
    'src/client/files/node-files.ts': "await import('./transfer/upload.ts');\n",
    'src/client/files/transfer/upload.ts': "import 'node:fs';\n",
  };
  expect(check(files)).toEqual({ status: 0, lines: [] });
});
