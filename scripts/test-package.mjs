// Packs the package and uses it as its users do: installed into empty folders, from TypeScript in every kind of project, with npx. Checks it with
// publint and arethetypeswrong. Prints sizes and times.
//
//   npm run test:package
import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { ensureNode } from './nodes.mjs';
import { ensurePackage } from './package-cache.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** The first supported version of each release line. */
const FIRST_VERSIONS = manifest.engines.node.match(/\d+\.\d+\.\d+/g);
const scratch = mkdtempSync(join(tmpdir(), 'test-package-'));
const home = join(scratch, 'home');
/** The npm of a new user, with a cache of its own. */
const env = {
  PATH: process.env.PATH,
  HOME: home,
  XDG_RUNTIME_DIR: home,
  npm_config_cache: join(scratch, 'cache'),
};

try {
  mkdirSync(home);
  const tarball = pack();
  await lint(tarball);
  const project = install(tarball);
  await useFromTypeScript(project);
  for (const version of FIRST_VERSIONS) useOn(version, await ensureNode(version), project);
  useCommand(project);
  installGlobally(tarball);
  measureNpx(tarball);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

function pack() {
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', scratch];
  const [{ filename, size, unpackedSize, files }] = JSON.parse(
    execFileSync('npm', args, { cwd: root, encoding: 'utf8' }),
  );
  report(`package: ${megabytes(size)} MB, unpacked ${megabytes(unpackedSize)} MB, ${files.length} files`);
  return join(scratch, filename);
}

async function lint(tarball) {
  const publint = await tool('publint', '0.3.25', 'src/cli.js');
  run(process.execPath, [publint, 'run', tarball, '--strict']);
  report('ok publint');
  // node10, the oldest way to resolve modules, does not know `exports`.
  const attw = await tool('@arethetypeswrong/cli', '0.18.5', 'dist/index.js');
  run(process.execPath, [attw, tarball, '--profile', 'node16']);
  report('ok arethetypeswrong');
}

function tool(name, version, file) {
  return ensurePackage(name, version, (folder) => {
    const path = join(folder, 'node_modules', name, file);
    return existsSync(path) ? path : undefined;
  });
}

function install(tarball) {
  const project = join(scratch, 'project');
  mkdirSync(project);
  writeFileSync(join(project, 'package.json'), '{ "private": true }\n');
  const { stderr } = run('npm', ['install', '--no-audit', '--no-fund', tarball], { cwd: project });
  expect(!/script|deprecated/i.test(stderr), `npm install warns: ${stderr}`);
  const modules = join(project, 'node_modules');
  const bytes = readdirSync(modules, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
  const packages = execFileSync('npm', ['ls', '--all', '--parseable'], {
    cwd: project,
    env,
    encoding: 'utf8',
  });
  report(`installed: ${megabytes(bytes)} MB, ${packages.trim().split('\n').length - 1} packages`);
  return project;
}

/**
 * Compiles a program that imports every entry in the three kinds of projects, without skipLibCheck. Runs each with the first version of
 * every line that `engines` names; that for bundlers as a bundle.
 */
async function useFromTypeScript(project) {
  const entries = Object.keys(manifest.exports).filter((name) => !name.includes('.json'));
  const imports = entries.map(
    (name, index) => `import * as entry${index} from '${name.replace('.', 'exec-server')}';`,
  );
  const names = entries.map((_, index) => `entry${index}`).join(', ');
  const program = `${imports.join('\n')}\nconst all: object[] = [${names}];\nif (all.some((entry) => Object.keys(entry).length === 0)) throw new Error('empty');\n`;
  run(
    'npm',
    ['install', '--no-audit', '--no-fund', `@types/node@${manifest.devDependencies['@types/node']}`],
    {
      cwd: project,
    },
  );
  const kinds = {
    nodenext: { file: 'program.mts', module: 'nodenext', output: 'program.mjs' },
    commonjs: { file: 'program.cts', module: 'node16', output: 'program.cjs' },
    bundler: { file: 'program.ts', module: 'esnext', moduleResolution: 'bundler', output: 'bundle.cjs' },
  };
  for (const [kind, { file, output, ...options }] of Object.entries(kinds)) {
    const folder = join(project, kind);
    mkdirSync(folder);
    writeFileSync(join(folder, file), program);
    const compilerOptions = { ...options, strict: true, target: 'es2023', types: ['node'], outDir: '.' };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [file] }));
    run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder]);
    if (kind === 'bundler') await bundle(join(folder, file), join(folder, output));
    for (const version of FIRST_VERSIONS) {
      const { stderr } = run(await ensureNode(version), [join(folder, output)]);
      expect(stderr === '', `Node ${version} printed ${stderr}`);
    }
    report(`ok TypeScript: ${[kind, ...FIRST_VERSIONS].join(', ')}`);
  }
}

/** Bundles a program as docs/guides/embedding.md does. */
async function bundle(entry, outfile) {
  await build({
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    external: Object.keys(manifest.peerDependencies),
    logOverride: { 'empty-import-meta': 'silent' },
  });
}

/** Uses the library and the command of the installed package with another version of Node. */
function useOn(version, node, project) {
  const load = `.then(({ connect }) => console.log(typeof connect, process.versions.node))`;
  const programs = {
    require: ['-e', `Promise.resolve(require('exec-server'))${load}`],
    import: ['--input-type=module', '-e', `import('exec-server')${load}`],
  };
  for (const [kind, args] of Object.entries(programs)) {
    const { stdout, stderr } = run(node, args, { cwd: project });
    expect(
      stdout === `function ${version}\n` && stderr === '',
      `Node ${version}, ${kind}: ${stdout}${stderr}`,
    );
  }
  const homeOfVersion = join(scratch, `home-${version}`);
  mkdirSync(homeOfVersion);
  const bin = join(project, 'node_modules/exec-server', manifest.bin['exec-server']);
  const options = { cwd: project, env: { ...env, HOME: homeOfVersion, XDG_RUNTIME_DIR: homeOfVersion } };
  const { stdout, stderr } = run(node, [bin, 'run', '--', 'echo', 'hello'], options);
  expect(stdout === 'hello\n' && stderr === '', `Node ${version}, run: ${stdout}${stderr}`);
  const { pid, executable } = stopPrivateServer(homeOfVersion);
  expect(executable === node, `the server ${pid} runs with ${executable}, not with Node ${version}`);
  report(`ok Node ${version}: require, import, exec-server run`);
}

/** Ends the server that `exec-server run` has started for this user. */
function stopPrivateServer(home) {
  const { pid } = JSON.parse(readFileSync(join(home, 'exec-server/server.json'), 'utf8'));
  const executable = readlinkSync(`/proc/${pid}/exe`);
  process.kill(pid, 'SIGTERM');
  return { pid, executable };
}

function useCommand(project) {
  const bin = join(project, 'node_modules/.bin/exec-server');
  const { stdout } = run(bin, ['run', '--', 'echo', 'hello'], { cwd: project });
  expect(stdout === 'hello\n', `run printed ${stdout}`);
  run(bin, ['token', '--out', 'secret'], { cwd: project });
  const flags = [
    '--secret-file',
    'secret',
    '--store',
    'redis://127.0.0.1:1',
    '--node-url',
    'http://127.0.0.1:1',
  ];
  const refused = spawnSync(bin, ['relay', ...flags], { cwd: project, env, encoding: 'utf8' });
  expect(
    /needs the package @redis\/client.*npm install/.test(refused.stderr),
    `the relay said: ${refused.stderr}`,
  );
  stopPrivateServer(home);
  report('ok exec-server run; a relay with --store names the package that it needs');
}

/** The installation of the README, with a prefix. */
function installGlobally(tarball) {
  const prefix = join(scratch, 'global');
  // A prefix would have a configuration of its own, without the certificates that this machine may need.
  const config = ['--globalconfig', run('npm', ['config', 'get', 'globalconfig']).stdout.trim()];
  run('npm', ['install', '--global', '--prefix', prefix, ...config, '--no-audit', '--no-fund', tarball]);
  const { stdout } = run(join(prefix, 'bin/exec-server'), ['version']);
  expect(stdout.startsWith('exec-server '), `version printed ${stdout}`);
  const page = join(prefix, 'share/man/man1/exec-server.1');
  expect(existsSync(page), `npm has not installed ${page}`);
  report('ok npm install --global, with the man page');
}

/** With an empty cache npx downloads all packages. */
function measureNpx(tarball) {
  for (const state of ['cold', 'warm']) {
    const started = performance.now();
    const { stdout } = run('npx', ['--yes', `--package=${tarball}`, 'exec-server', '--version'], {
      cwd: home,
      env: { ...env, npm_config_cache: join(scratch, 'npx-cache') },
    });
    expect(stdout.startsWith('exec-server '), `npx printed ${stdout}`);
    report(`npx exec-server --version, ${state}: ${((performance.now() - started) / 1000).toFixed(1)} s`);
  }
}

function run(program, args, options = {}) {
  const result = spawnSync(program, args, { env, encoding: 'utf8', ...options });
  expect(result.status === 0, `${program} ${args.join(' ')} failed:\n${result.stdout}${result.stderr}`);
  return result;
}

function expect(holds, message) {
  if (!holds) throw new Error(message);
}

function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1);
}

function report(line) {
  process.stdout.write(`${line}\n`);
}
