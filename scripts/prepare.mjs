// Prepares a checkout: installs the locked dependencies and compiles, each only when needed. --clean removes earlier build output first,
// including modules that no longer exist.
// Everything it prints goes to stderr: stdout belongs to the command that follows.
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

function run(command, args) {
  const result = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2] });
  if (result.status !== 0) {
    process.stderr.write(`prepare: ${command} ${args.join(' ')} failed\n`);
    process.exit(result.status ?? 1);
  }
}

const lock = join(root, 'package-lock.json');
const installed = join(root, 'node_modules', '.package-lock.json');
if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(lock).mtimeMs) {
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']);
}
if (process.argv.includes('--clean')) rmSync(join(root, 'dist'), { recursive: true, force: true });
run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json']);
for (const script of ['build-entries.mjs', 'bundle-bin.mjs', 'build-console.mjs']) {
  run(process.execPath, [join(root, 'scripts', script)]);
}
