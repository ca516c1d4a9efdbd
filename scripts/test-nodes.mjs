// Runs the tests on every supported version of Node.
//
//   node scripts/test-nodes.mjs [VITEST ARGUMENTS]       all tests on every version, or those that the arguments select, one version
//                                                        after the other
//   node scripts/test-nodes.mjs --core                   a core of the tests on the versions other than this one, two at a time
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
  'tests/unit/cli/main.test.ts',
  'tests/unit/native/',
  'tests/unit/rpc/base64',
  'tests/unit/transport/',
];

/** A version starts and ends its tests on one CPU. Two versions together use two, with one worker more than the whole suite has. */
const CORE_VERSIONS_AT_ONCE = 2;
const CORE_WORKERS = 3;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const isCore = process.argv[2] === '--core';
const selected = isCore ? [...CORE, '--maxWorkers', String(CORE_WORKERS)] : process.argv.slice(2);

if (isCore && nodesAreSkipped()) {
  process.stderr.write('test-nodes: SKIP_OTHER_NODES is set: only this version of Node is tested\n');
} else {
  const waiting = isCore ? otherNodeVersions() : [...NODE_VERSIONS];
  const failed = [];
  const testVersions = async () => {
    for (let version = waiting.shift(); version !== undefined; version = waiting.shift()) {
      if (!(await passesWithCopy(version))) failed.push(version);
    }
  };
  await Promise.all(Array.from({ length: isCore ? CORE_VERSIONS_AT_ONCE : 1 }, testVersions));
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

/** Prints the output of versions that run at the same time when each has ended. */
async function passes(node, version) {
  const args = [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...selected];
  // Tests and the programs that they run find this version as `node` too.
  const env = {
    ...process.env,
    PATH: `${dirname(node)}${delimiter}${process.env.PATH}`,
    // Vitest fails when it reads the results of an earlier run while another one writes them.
    VITEST_CACHE_DIR: join(dirname(node), 'cache'),
    ...(isCore && { RANDOM_INPUTS: 'few' }),
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
