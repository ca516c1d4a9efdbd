// Runs the tests on every supported version of Node, one version after the other.
//
//   node scripts/test-nodes.mjs [VITEST ARGUMENTS]       all tests on every version, or those that the arguments select
//   node scripts/test-nodes.mjs --core                   a core of the tests on the versions other than this one
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureNode, NODE_VERSIONS, nodesAreSkipped, otherNodeVersions } from './nodes.mjs';

/** Bytes with SHA-256, terminals, sandbox, resume, start of the program; and what differs between versions of Node. */
const CORE = [
  'tests/e2e/core.test.ts',
  'tests/e2e/server-lifecycle.test.ts',
  'tests/unit/native/',
  'tests/unit/rpc/base64',
  'tests/unit/transport/',
];

/** `npm test` runs the core beside all tests of this version, which use the rest of the machine. */
const CORE_WORKERS = 1;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const isCore = process.argv[2] === '--core';
const selected = isCore ? CORE : process.argv.slice(2);

if (isCore && nodesAreSkipped()) {
  process.stderr.write('test-nodes: SKIP_OTHER_NODES is set: only this version of Node is tested\n');
} else {
  const failed = [];
  for (const version of isCore ? otherNodeVersions() : NODE_VERSIONS) {
    if (!(await passesWithCopy(version))) failed.push(version);
  }
  if (failed.length > 0) {
    process.stderr.write(`\ntest-nodes: tests failed on Node ${failed.join(', ')}\n`);
    process.exitCode = 1;
  }
}

/** Tests run servers as other users, who cannot read the home folder of this one. */
async function passesWithCopy(version) {
  const node = await ensureNode(version);
  const folder = mkdtempSync(join(tmpdir(), 'exec-server-node-'));
  try {
    chmodSync(folder, 0o755);
    const copy = join(folder, 'node');
    copyFileSync(node, copy);
    chmodSync(copy, 0o755);
    return await passes(copy, version);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Prints the output of the core in one piece: `npm test` prints other results at the same time. */
async function passes(node, version) {
  const args = [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...selected];
  // Tests and the programs that they run find this version as `node` too.
  const env = {
    ...process.env,
    PATH: `${dirname(node)}${delimiter}${process.env.PATH}`,
    // Vitest fails when it reads the results of an earlier run while the other one writes them.
    VITEST_CACHE_DIR: join(dirname(node), 'cache'),
    // The option of the command line does not change the projects.
    ...(isCore && { RANDOM_INPUTS: 'few', VITEST_MAX_WORKERS: String(CORE_WORKERS) }),
  };
  const title = `\ntest-nodes: Node ${version}\n`;
  if (!isCore) process.stderr.write(title);
  const output = isCore ? 'pipe' : 'inherit';
  const child = spawn(node, args, { cwd: root, env, stdio: ['inherit', output, output] });
  const printed = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (bytes) => printed.push(bytes));
  const [code] = await once(child, 'close');
  if (isCore) process.stderr.write(Buffer.concat([Buffer.from(title), ...printed]));
  return code === 0;
}
