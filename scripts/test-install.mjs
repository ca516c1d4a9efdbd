// Follows the install instructions of README.md and of the guides word for word, each way as a new user in a new container, and runs the first
// command. The package and the executable are built by the instructions for a clone, and published on loopback. Prints times and sizes.
// Needs root, podman, buildah, runc and debootstrap. Commands that are not committed are not in the clone.
//
//   npm run test:install
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildBases } from './image/build-image.mjs';
import { Podman } from './image/podman.mjs';
import { githubJob, gitlabJob } from './install/ci-jobs.mjs';
import { checkOutput, documentedWays, scriptOf } from './install/documented-ways.mjs';
import { serveDownloads, serveRegistry } from './install/release-servers.mjs';
import { repositoryHome } from './repository-links.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** What the instructions use without installing it, and the tools of systemd for services. */
const PACKAGES = ['ca-certificates', 'curl', 'git', 'sudo', 'systemd'];
const USER = 1000;
const HOME = '/home/user';
/** The folder of npm's global packages belongs to the user, as with a version manager of Node. */
const NPM_PREFIX = `${HOME}/node`;
const NEW_USER = `useradd --uid ${USER} --home-dir ${HOME} --shell /bin/bash user && cd ${HOME} &&
  exec setpriv --reuid=user --regid=user --init-groups bash "$0"`;
const MAY_USE_SUDO = "echo 'user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/user";

requireTools();
const ways = documentedWays()
  .set('github', githubJob())
  .set('github-version', githubJob({ version: manifest.version }))
  .set('github-tgz', githubJob({ version: 'packed.tgz' }))
  .set('gitlab', gitlabJob());
const podman = new Podman();
const servers = [];
try {
  const buildArguments = await buildBases(podman, report, PACKAGES);
  const clone = await followClone();
  const registry = await serveRegistry(join(clone, `exec-server-${manifest.version}.tgz`), manifest);
  servers.push(registry);
  const settings = join(podman.folder, 'curl');
  const downloads = await serveDownloads(join(clone, 'build/binary'), repositoryHome(), settings);
  servers.push(downloads);

  await follow('npm', 'localhost/node', { environment: registry.environment, installed: 'node' });
  await follow('npx', 'localhost/node', { environment: registry.environment, installed: '.npm' });
  for (const way of ['github', 'github-version', 'gitlab'])
    await follow(way, 'localhost/node', { environment: registry.environment });
  const packed = `${join(clone, `exec-server-${manifest.version}.tgz`)}:${HOME}/packed.tgz:ro`;
  await follow('github-tgz', 'localhost/node', { volumes: [packed] });
  await follow('executable', 'localhost/base', {
    environment: downloads.environment,
    volumes: [`${settings}:${downloads.mounted}:ro`],
    installed: '.local/bin',
  });
  await followWithExecutable('sandbox', clone, {
    setup: MAY_USE_SUDO,
    flags: ['--security-opt', 'unmask=ALL'],
  });
  for (const way of ['service', 'system-service']) await followService(way, clone);
  await followImage(clone, buildArguments);
  for (const way of ways.keys()) throw new Error(`test-install does not follow install=${way} of the pages`);
} finally {
  for (const server of servers) await server.close();
  await podman.close();
}

function requireTools() {
  const programs = ['podman', 'buildah', 'runc', 'debootstrap', 'git', 'openssl', 'ip'];
  const missing = programs.filter((program) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0);
  if (process.getuid() !== 0) missing.push('root');
  if (missing.length === 0) return;
  process.stderr.write(`test-install: this needs ${missing.join(', ')}\n`);
  process.exit(2);
}

/** Builds package and executable as README says, from the newest commit. Returns the folder of the clone. */
async function followClone() {
  const repository = join(podman.folder, 'repository.git');
  execFileSync('git', ['clone', '--quiet', '--bare', '--depth', '1', `file://${root}`, repository]);
  // git clones no repository of another user.
  execFileSync('chown', ['--recursive', `${USER}:${USER}`, repository]);
  const environment = {
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'url.file:///repository.git.insteadOf',
    GIT_CONFIG_VALUE_0: repositoryHome(),
  };
  const volumes = [`${repository}:/repository.git:ro`];
  const home = await follow('clone', 'localhost/node', { environment, volumes, installed: '.local/bin' });
  return join(home, 'exec-server');
}

/** systemctl.sh stands in for systemctl. No other program is in the network of the container, so the ports of the page are free. */
async function followService(way, clone) {
  await followWithExecutable(way, clone, {
    programs: { systemctl: join(root, 'scripts/service/systemctl.sh') },
    setup: MAY_USE_SUDO,
    environment: { XDG_RUNTIME_DIR: '/tmp' },
    network: ['--network=none'],
  });
}

/** Follows a way that begins with an installed exec-server, and with these other programs. */
async function followWithExecutable(way, clone, { programs = {}, ...options }) {
  const bin = join(podman.folder, `bin-${way}`);
  mkdirSync(bin);
  const executable = join(clone, `build/binary/exec-server-linux-${process.arch}`);
  for (const [name, file] of Object.entries({ 'exec-server': executable, ...programs })) {
    copyFileSync(file, join(bin, name));
    chmodSync(join(bin, name), 0o755);
  }
  await follow(way, 'localhost/base', { ...options, volumes: [`${bin}:/usr/local/bin:ro`] });
}

/** Builds the image, and uses it in a network of its own, where the ports of the page are free. */
async function followImage(clone, buildArguments) {
  const bin = join(podman.folder, 'image-bin');
  const home = join(podman.folder, 'image-home');
  for (const folder of [bin, home]) mkdirSync(folder);
  podman.writeProgram(join(bin, 'podman'), buildArguments);
  copyFileSync(join(clone, `build/binary/exec-server-linux-${process.arch}`), join(bin, 'exec-server'));
  chmodSync(join(bin, 'exec-server'), 0o755);
  const env = { PATH: `${bin}:${process.env.PATH}`, HOME: home };
  const onThisMachine = (way, program, ...args) => {
    const commands = take(way);
    const options = { cwd: clone, env, encoding: 'utf8', maxBuffer: 1e8 };
    const { stdout, stderr } = spawnSync(program, [...args, scriptOf(commands)], options);
    print(way, check(commands, stdout, stderr));
  };
  onThisMachine('image', 'bash', '-c');
  for (const way of ['container', 'relay-container'])
    onThisMachine(way, 'unshare', '--net', 'sh', '-c', 'ip link set lo up && exec bash -c "$0"');
}

/**
 * Runs the commands of a way in a new container as a new user, after root has run `setup`. Prints the time, and the size of the folder
 * `installed` below the home. Returns the home.
 */
async function follow(way, image, options) {
  const { environment = {}, volumes = [], flags: moreFlags = [], network, installed, setup = ':' } = options;
  const commands = take(way);
  const home = join(podman.folder, `home-${way}`);
  mkdirSync(home);
  chownSync(home, USER, USER);
  const script = join(podman.folder, `${way}.sh`);
  writeFileSync(script, scriptOf(commands));
  const path = `${NPM_PREFIX}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
  const npm = { npm_config_prefix: NPM_PREFIX, npm_config_update_notifier: 'false' };
  const variables = { PATH: path, HOME, ...npm, ...environment };
  const flags = [
    ...moreFlags,
    ...Object.entries(variables).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
    ...[`${home}:${HOME}`, `${script}:/commands.sh:ro`, ...volumes].flatMap((volume) => ['--volume', volume]),
  ];
  const start = ['sh', '-c', `${setup} && ${NEW_USER}`, '/commands.sh'];
  const { stdout, stderr } = await podman.once(flags, image, start, network);
  print(way, check(commands, stdout, stderr), installed && join(home, installed));
  return home;
}

/** The commands of a way. What is left at the end is not tested. */
function take(way) {
  const commands = ways.get(way);
  if (commands === undefined) throw new Error(`no page has a block with install=${way}`);
  ways.delete(way);
  return commands;
}

function check(commands, stdout, stderr) {
  if (stdout === '') throw new Error(`the commands did not start: ${stderr}`);
  return checkOutput(commands, stdout);
}

function print(way, times, folder) {
  const total = times.reduce((sum, { seconds }) => sum + seconds, 0);
  const size = folder === undefined ? '' : `, ${megabytes(folder)} MB`;
  console.log(`ok ${way}: ${total.toFixed(1)} s${size}`);
  for (const { command, seconds } of times) {
    console.log(`     ${seconds.toFixed(1)} s  ${command.split('\n')[0].slice(0, 100)}`);
  }
}

function megabytes(folder) {
  const [bytes] = execFileSync('du', ['--bytes', '--summarize', folder], { encoding: 'utf8' }).split('\t');
  return Math.round(Number(bytes) / 1e6);
}

async function report(name, step) {
  const result = await step();
  console.log(`ok ${name}`);
  return result;
}
