// Installs the programs that the tests need, if this user may install packages. A test whose program is missing reports it. Fails
// when another version of Node that must be tested cannot be installed.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { ensureHelm, ensureKubernetesModels } from './kubernetes-tools.mjs';
import { ensureMcpConformance } from './mcp-conformance.mjs';
import { ensureNode, nodesAreSkipped, otherNodeVersions } from './nodes.mjs';
import { ensureReference } from './reference.mjs';

/** Program → Debian package. A minimal Debian has none of them. */
const TOOLS = {
  git: 'git',
  python3: 'python3',
  curl: 'curl',
  wget: 'wget',
  openssl: 'openssl',
  ps: 'procps',
  less: 'less',
  rg: 'ripgrep',
  bwrap: 'bubblewrap',
  zsh: 'zsh',
  fish: 'fish',
  man: 'man-db',
  ssh: 'openssh-client',
  sshd: 'openssh-server',
  tmux: 'tmux',
  vim: 'vim',
  top: 'procps',
  asciinema: 'asciinema',
  'redis-server': 'redis-server',
  'chromium-headless-shell': 'chromium-headless-shell',
  'systemd-analyze': 'systemd',
};

const missing = Object.keys(TOOLS).filter((program) => !onPath(program));
if (missing.length > 0) {
  const packages = missing.map((program) => TOOLS[program]);
  const installed = mayInstall() && (install(packages) || (apt('update') && install(packages)));
  if (!installed)
    process.stderr.write(
      `test-tools: not installed, some tests are skipped or fail: ${packages.join(', ')}\n`,
    );
}

await ensureReference().catch(({ message }) =>
  process.stderr.write(`test-tools: no reference server: ${message}\n`),
);

await ensureMcpConformance().catch(({ message }) =>
  process.stderr.write(`test-tools: no MCP conformance suite: ${message}\n`),
);

await Promise.all([ensureHelm(), ensureKubernetesModels()]).catch(({ message }) =>
  process.stderr.write(`test-tools: no Helm: ${message}\n`),
);

if (!nodesAreSkipped()) {
  await Promise.all(otherNodeVersions().map((version) => ensureNode(version))).catch(({ message }) => {
    process.stderr.write(
      `test-tools: ${message}\nThe tests run on every supported version of Node. Set SKIP_OTHER_NODES=1 to test this one alone.\n`,
    );
    process.exitCode = 1;
  });
}

/** Servers may be in a folder that the PATH of a user lacks. */
function onPath(program) {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin'];
  return folders.some((folder) => existsSync(join(folder, program)));
}

function mayInstall() {
  return process.getuid?.() === 0 && onPath('apt-get');
}

function install(packages) {
  return apt('install', '-y', '--no-install-recommends', ...packages);
}

function apt(...args) {
  // In runlevel 1, installed packages do not start their services.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const { status } = spawnSync('apt-get', ['-q', ...args], {
    env,
    stdio: ['ignore', 2, 2],
    timeout: 600_000,
  });
  return status === 0;
}

// A test without its program is skipped. In CI that would look like a success.
if (!['', '0', 'false'].includes(process.env.CI ?? '')) {
  const absent = Object.keys(TOOLS).filter((program) => !onPath(program));
  if (absent.length > 0) {
    process.stderr.write(`test-tools: CI needs these programs, and they are missing: ${absent.join(', ')}\n`);
    process.exitCode = 1;
  }
}
