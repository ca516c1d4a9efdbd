// Brings the programs that tests run or compare with, where this user may install packages. A test whose program is missing says so.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { ensureReference } from './reference.mjs';

/** Program → Debian package. */
const TOOLS = { rg: 'ripgrep', bwrap: 'bubblewrap', zsh: 'zsh', 'redis-server': 'redis-server' };

const missing = Object.keys(TOOLS).filter((program) => !onPath(program));
if (missing.length > 0) {
  const packages = missing.map((program) => TOOLS[program]);
  const installed = mayInstall() && (install(packages) || (apt('update') && install(packages)));
  if (!installed)
    process.stderr.write(`test-tools: not installed, tests do without: ${packages.join(', ')}\n`);
}

await ensureReference().catch(({ message }) =>
  process.stderr.write(`test-tools: no reference: ${message}\n`),
);

function onPath(program) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, program)));
}

function mayInstall() {
  return process.getuid?.() === 0 && onPath('apt-get');
}

function install(packages) {
  return apt('install', '-y', '--no-install-recommends', ...packages);
}

function apt(...args) {
  // In runlevel 1 packages do not start the services that they bring.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const { status } = spawnSync('apt-get', ['-q', ...args], {
    env,
    stdio: ['ignore', 2, 2],
    timeout: 120_000,
  });
  return status === 0;
}
