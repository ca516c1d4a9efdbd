// `npm test`: builds, checks and runs every test on this Node, and a core of them on the other supported versions. Builds the documentation site too.
//
// Tests wait for timers and for other programs, and leave a part of two CPUs idle. The checks, the site and the other versions of Node use
// it: they run beside the tests, one after the other.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const failed = [];
const running = new Set();
process.once('SIGTERM', () => {
  for (const child of running) child.kill();
});

// The build needs the CPU. The tools need the network, if one of them is missing.
await Promise.all([
  part('build', 'node', ['scripts/prepare.mjs']),
  part('tools', 'node', ['scripts/test-tools.mjs']),
]);
if (failed.length === 0) {
  await Promise.all([
    part('tests', 'node', ['node_modules/vitest/vitest.mjs', 'run', '--project', '!measured']),
    runBesideTests(),
  ]);
}
if (failed.length > 0) {
  process.stderr.write(`\nnpm test: failed: ${failed.join(', ')}\n`);
  process.exitCode = 1;
}

async function runBesideTests() {
  await part('checks', 'npm', ['run', '-s', 'check:built'], 'when it ends');
  await part('site', 'node', ['website/build.mjs', '--check'], 'when it ends');
  // Prints the output of each version when that has ended.
  await part('other versions of Node', 'node', ['scripts/test-nodes.mjs', '--core']);
}

/** Runs a part of the test. Its output is printed immediately, or in one piece. */
async function part(name, program, args, prints = 'immediately') {
  const startedAt = performance.now();
  const output = prints === 'immediately' ? 'inherit' : 'pipe';
  const command = program === 'node' ? process.execPath : program;
  const child = spawn(command, args, { cwd: root, stdio: ['inherit', output, output] });
  running.add(child);
  const printed = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (bytes) => printed.push(bytes));
  const [code] = await once(child, 'close');
  running.delete(child);
  if (code !== 0) failed.push(name);
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  const line = `npm test: ${name} ${code === 0 ? 'passed' : 'FAILED'} after ${seconds} s\n`;
  process.stderr.write(Buffer.concat([...printed, Buffer.from(line)]));
}
