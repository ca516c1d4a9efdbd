// Runs the tests on every supported version of Node, one after the other.
//
//   node scripts/test-nodes.mjs [VITEST ARGUMENTS]       all tests on every version, or those that the arguments select
//   node scripts/test-nodes.mjs --core                   a core of the tests on the versions other than this one
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureNode, NODE_VERSIONS, nodesAreSkipped, otherNodeVersions } from './nodes.mjs';

/** Bytes with SHA-256, terminals, sandbox, resume, start of the program; and what differs between versions of Node. */
const CORE = [
  'tests/e2e/core.test.ts',
  'tests/e2e/server-lifecycle.test.ts',
  'tests/unit/cli/main.test.ts',
  'tests/unit/native/',
  'tests/unit/rpc/base64',
  'tests/unit/transport/',
];

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const isCore = process.argv[2] === '--core';
const selected = isCore ? CORE : process.argv.slice(2);

if (isCore && nodesAreSkipped()) {
  process.stderr.write('test-nodes: SKIP_OTHER_NODES is set: only this version of Node is tested\n');
} else {
  const failed = [];
  for (const version of isCore ? otherNodeVersions() : NODE_VERSIONS) {
    process.stderr.write(`\ntest-nodes: Node ${version}\n`);
    if (!passesWithCopy(await ensureNode(version))) failed.push(version);
  }
  if (failed.length > 0) {
    process.stderr.write(`\ntest-nodes: tests failed on Node ${failed.join(', ')}\n`);
    process.exitCode = 1;
  }
}

/** Tests run servers as other users, who cannot read the home folder of this one. */
function passesWithCopy(node) {
  const folder = mkdtempSync(join(tmpdir(), 'exec-server-node-'));
  try {
    chmodSync(folder, 0o755);
    const copy = join(folder, 'node');
    copyFileSync(node, copy);
    chmodSync(copy, 0o755);
    return passes(copy);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function passes(node) {
  const args = [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...selected];
  // Tests and the programs that they run find this version as `node` too.
  const env = { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` };
  return spawnSync(node, args, { cwd: root, env, stdio: 'inherit' }).status === 0;
}
