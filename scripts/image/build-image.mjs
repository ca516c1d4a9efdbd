// Builds the image of deploy/Containerfile on a machine that reaches no registry of images: the base is made by debootstrap, and Node and npm
// come from npm.
import { execFile } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ensureNode } from '../nodes.mjs';
import { cacheFolder, ensurePackage } from '../package-cache.mjs';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SUITE = 'trixie';
const NODE_VERSION = '24.21.0';
const NPM_VERSION = '11.19.1';
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';

/** Builds the image from this checkout and returns its tag. */
export async function buildImage(podman, report) {
  const base = await report(`base: Debian ${SUITE} by debootstrap`, ensureBase);
  await podman.do('import', base, 'localhost/base');
  await report(`build stage: Node ${NODE_VERSION} and npm ${NPM_VERSION} from npm`, () => buildNode(podman));
  const context = await report('package: npm pack', () => pack(podman.folder));
  const tag = 'localhost/exec-server';
  const buildArguments = { BASE: 'localhost/base', NODE: 'localhost/node' };
  await report('image: podman build', () =>
    podman.build(tag, context, join(ROOT, 'deploy/Containerfile'), buildArguments),
  );
  return tag;
}

/** A tar file with a Debian of about the content of debian:*-slim. Kept in the cache, because it takes minutes. */
async function ensureBase() {
  const file = join(cacheFolder(), `debian-${SUITE}.tar`);
  if (existsSync(file)) return file;
  mkdirSync(cacheFolder(), { recursive: true });
  const staging = mkdtempSync(join(cacheFolder(), 'base-'));
  try {
    const root = join(staging, 'root');
    const flags = ['--variant=minbase', '--include=ca-certificates'];
    await run('debootstrap', [...flags, SUITE, root, 'http://deb.debian.org/debian']);
    const unneeded = ['var/cache/apt/*.bin', 'var/cache/apt/archives/*.deb', 'var/lib/apt/lists/*'];
    const exclude = [...unneeded, 'usr/share/doc/*', 'usr/share/man/*', 'usr/share/locale/*'];
    const excludeFlags = exclude.flatMap((pattern) => ['--exclude', `./${pattern}`]);
    await run('tar', ['-C', root, ...excludeFlags, '-cf', join(staging, 'base.tar'), '.']);
    renameSync(join(staging, 'base.tar'), file);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
  return file;
}

/** What the image node:*-slim has. It trusts the certificates of this machine, behind a proxy too. */
async function buildNode(podman) {
  const context = join(podman.folder, 'node');
  mkdirSync(context);
  copyFileSync(await ensureNode(NODE_VERSION), join(context, 'node'));
  const npm = await ensurePackage('npm', NPM_VERSION, (folder) => {
    const program = join(folder, 'node_modules/npm/bin/npm-cli.js');
    return existsSync(program) ? program : undefined;
  });
  cpSync(dirname(dirname(npm)), join(context, 'npm'), { recursive: true });
  copyFileSync(CERTIFICATES, join(context, 'ca-certificates.crt'));
  writeFileSync(join(context, 'Containerfile'), NODE_STAGE);
  await podman.build('localhost/node', context, join(context, 'Containerfile'));
}

const NODE_STAGE = `\
FROM localhost/base
COPY --chmod=755 node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
COPY ca-certificates.crt ${CERTIFICATES}
ENV NODE_EXTRA_CA_CERTS=${CERTIFICATES}
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
`;

async function pack(folder) {
  const context = join(folder, 'context');
  mkdirSync(context);
  await run(process.execPath, [join(ROOT, 'scripts/prepare.mjs'), '--clean'], { cwd: ROOT });
  await run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', context], { cwd: ROOT });
  return context;
}
