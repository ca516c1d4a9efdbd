// Builds the single executables and uses them as their users do: installed by install.sh, on a minimal Debian without Node, from a read-only
// folder and by an ordinary user; the one for arm64 under qemu. Prints sizes and start times. Needs root, debootstrap, and for arm64
// qemu-user-static, libc6-arm64-cross and libstdc++6-arm64-cross.
//
//   npm run test:binary [-- --no-build]
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { sbomProblems } from './binary/check-sbom.mjs';
import { emulatorFor } from './binary/code-cache.mjs';
import { ensureDebian } from './debian.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const built = join(root, 'build/binary');
const x64 = join(built, `exec-server-linux-${process.arch}`);
const arm64 = join(built, 'exec-server-linux-arm64');
/** A Debian that is older than that of the image, with a sandbox, with the tools of systemd, and with a Redis. */
const SUITE = 'bookworm';
const PACKAGES = ['bubblewrap', 'curl', 'redis-server', 'systemd'];
/** The files below scripts/ that the Debian gets. */
const SCRIPTS = [
  'binary/every-command.sh',
  'binary/use-redis.sh',
  'checks.sh',
  'service/use-service.sh',
  'service/systemctl.sh',
];

requireTools();
if (!process.argv.includes('--no-build')) {
  const script = ['run', '-s', 'build:binary', '--', '--arch', process.arch, '--arch', 'arm64'];
  execFileSync('npm', script, { cwd: root, stdio: ['ignore', 2, 2] });
}
const { connect, RemoteFileSystem } = await import('../dist/client/index.js');
const scratch = mkdtempSync(join(tmpdir(), 'test-binary-'));
try {
  report(`size: ${megabytes(x64)} MB (${process.arch}), ${megabytes(arm64)} MB (arm64)`);
  execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: built, stdio: ['ignore', 2, 2] });
  report('ok checksums');
  await checkComponents();
  install();
  await useEveryCommand();
  await useForeignExecutable();
  await measureStarts();
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

function requireTools() {
  const missing = ['debootstrap', 'unshare', 'setpriv'].filter(
    (name) => spawnSync('sh', ['-c', `command -v ${name}`]).status !== 0,
  );
  if (emulatorFor('arm64') === null)
    missing.push('qemu-user-static', 'libc6-arm64-cross', 'libstdc++6-arm64-cross');
  if (process.getuid() !== 0) missing.push('root');
  if (missing.length === 0) return;
  process.stderr.write(`test-binary: this needs ${missing.join(', ')}\n`);
  process.exit(1);
}

/** The SBOM has every package whose code is inside, and Node, each with its version and licence. */
async function checkComponents() {
  const sbom = JSON.parse(readFileSync(join(built, 'exec-server.cdx.json'), 'utf8'));
  const notices = readFileSync(join(built, 'THIRD_PARTY_NOTICES.txt'), 'utf8');
  const problems = await sbomProblems(sbom, notices);
  expect(problems.length === 0, `the SBOM has problems:\n${problems.join('\n')}`);
  report(`ok SBOM: ${sbom.components.length} components`);
}

/** Installs into a new folder, with nothing else in the home folder afterwards. */
function install() {
  const home = join(scratch, 'home');
  mkdirSync(home);
  const env = { PATH: process.env.PATH, HOME: home };
  const output = execFileSync('dash', [join(built, 'install.sh')], { env, encoding: 'utf8' });
  expect(output.includes(`${home}/.local/bin is not in your PATH`), `install.sh printed: ${output}`);
  const files = readdirSync(home, { recursive: true }).sort();
  expect(files.join() === '.local,.local/bin,.local/bin/exec-server', `install.sh wrote ${files}`);
  report('ok install.sh');
}

/** Runs scripts/binary/every-command.sh on the Debian, and uses its server from here. */
async function useEveryCommand() {
  const bin = join(scratch, 'bin');
  mkdirSync(bin);
  chmodSync(scratch, 0o755);
  copyFileSync(x64, join(bin, 'exec-server'));
  for (const script of SCRIPTS) copyFileSync(join(root, 'scripts', script), join(bin, basename(script)));
  const enter = join(root, 'scripts/binary/enter-debian.sh');
  const debian = await ensureDebian(SUITE, PACKAGES);
  const args = ['--mount', '--pid', '--fork', '--kill-child', 'sh', enter, debian, bin];
  const child = spawn('unshare', [...args, 'sh', '/opt/exec-server/every-command.sh'], {
    stdio: ['ignore', 'pipe', 2],
  });
  try {
    await useServer(await urlOf(child));
    report('ok worker threads: screens, hashes, walks, searches');
  } finally {
    await end(child);
  }
}

/** Starts a server under qemu and runs a program there. */
async function useForeignExecutable() {
  const [program, ...args] = [...emulatorFor('arm64'), arm64];
  for (const argument of ['--version', 'help'])
    execFileSync(program, [...args, argument], { stdio: 'ignore' });
  const child = spawn(program, [...args, '--listen', 'ws://127.0.0.1:0'], {
    env: { PATH: process.env.PATH, HOME: scratch },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  try {
    const client = await connect(await urlOf(child));
    const { text, exitCode } = await client.run(['sh', '-c', 'echo foreign; exit 3']);
    expect(text.stdout === 'foreign\n' && exitCode === 3, `the program printed ${text.stdout}`);
    // Only koffi has terminals. Without it the server starts programs by child_process.
    const terminal = await client.run(['tty'], { tty: true });
    expect(terminal.text.terminal.startsWith('/dev/pts/'), `tty printed ${terminal.text.terminal}`);
    await client.close();
    report('ok arm64 under qemu: version, help, serve, run, a terminal');
  } finally {
    await end(child);
  }
}

/** Uses all kinds of worker threads of a server. */
async function useServer(url) {
  const client = await connect(url);
  const files = new RemoteFileSystem(client);
  const terminal = await client.spawn(['sh', '-c', 'printf "drawn-%s" here; read x'], { tty: true });
  let screen = await terminal.screen();
  for (let tries = 0; !screen.text.includes('drawn-here') && tries < 100; tries++)
    screen = await terminal.screen();
  expect(screen.text.includes('drawn-here'), `the screen is ${screen.text}`);
  await terminal.kill();
  const folder = 'file:///home/user';
  const [hash] = await files.hash([`${folder}/tree/a/b/numbers`]);
  expect(JSON.stringify(hash).length > 64, `the hash is ${JSON.stringify(hash)}`);
  const { matches, engine } = await files.search(folder, '^99999$', { regex: true });
  expect(
    engine === 'builtin' && matches.length > 0,
    `the search found ${JSON.stringify(matches)} with ${engine}`,
  );
  const limits = { maxDepth: 20, maxDirectories: 10_000, maxEntries: 10_000 };
  for (let count = 0; count < 3; count++) {
    const flags = { followDirectorySymlinks: false, pruneHiddenDirectories: false };
    const { entries } = await files.walk('file:///usr/share', { ...limits, ...flags });
    expect(entries.length > 1000, `the walk found ${entries.length} entries`);
  }
  await client.close();
}

/** Prints the lines of a program up to the URL of a server, which it returns. */
async function urlOf(child) {
  const lines = [];
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith('ws://')) return line;
    report(line);
    lines.push(line);
  }
  throw new Error(`the program ended before it printed a URL: ${lines.slice(-5).join('\n')}`);
}

/** unshare ignores other signals, and ends what it started. */
async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** The time until a server prints its URL, for the executable and for the package on this Node. */
async function measureStarts() {
  const [node, bin] = [process.execPath, join(root, 'dist/bin/exec-server.cjs')];
  const commands = { executable: [x64], package: [node, bin] };
  const times = { executable: [], package: [] };
  for (let round = 0; round < 15; round++) {
    for (const [name, [program, ...args]] of Object.entries(commands)) {
      const started = performance.now();
      const child = spawn(program, [...args, '--listen', 'ws://127.0.0.1:0'], {
        env: { PATH: process.env.PATH, HOME: scratch },
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      await urlOf(child);
      times[name].push(performance.now() - started);
      await end(child);
    }
  }
  for (const [name, measured] of Object.entries(times)) {
    measured.sort((a, b) => a - b);
    report(
      `start of a server, ${name}: fastest ${measured[0].toFixed(0)} ms, median ${measured[7].toFixed(0)} ms`,
    );
  }
}

function expect(holds, message) {
  if (!holds) throw new Error(message);
}

function megabytes(file) {
  return (statSync(file).size / 1e6).toFixed(0);
}

function report(line) {
  process.stdout.write(`${line}\n`);
}
