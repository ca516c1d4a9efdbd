// Builds the image of deploy/Containerfile on a machine that reaches no registry of images: the base is made by debootstrap, and Node and npm
// come from npm.
import { execFile } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ensureDebian } from '../debian.mjs';
import { ensureNode } from '../nodes.mjs';
import { ensurePackage } from '../package-cache.mjs';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SUITE = 'trixie';
const PACKAGES = ['ca-certificates'];
const NODE_VERSION = '24.21.0';
const NPM_VERSION = '11.19.1';
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';

/** Builds the image from this checkout and returns its tag. */
export async function buildImage(podman, report) {
  const buildArguments = await buildBases(podman, report);
  const context = await report('package: npm pack', () => pack(podman.folder));
  const tag = 'localhost/exec-server';
  await report('image: podman build', () =>
    podman.build(tag, context, join(ROOT, 'deploy/Containerfile'), buildArguments),
  );
  return tag;
}

/** Makes the images that the build arguments of deploy/Containerfile name, and returns the arguments. */
export async function buildBases(podman, report, packages = PACKAGES) {
  const base = await report(`base: Debian ${SUITE} by debootstrap`, () => ensureDebian(SUITE, packages));
  await podman.importFolder(base, 'localhost/base');
  await report(`build stage: Node ${NODE_VERSION} and npm ${NPM_VERSION} from npm`, () => buildNode(podman));
  return { BASE: 'localhost/base', NODE: 'localhost/node' };
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
RUN cd /usr/local/bin && ln -s ../lib/node_modules/npm/bin/npm-cli.js npm && ln -s ../lib/node_modules/npm/bin/npx-cli.js npx
`;

async function pack(folder) {
  const context = join(folder, 'context');
  mkdirSync(context);
  await run(process.execPath, [join(ROOT, 'scripts/prepare.mjs'), '--clean'], { cwd: ROOT });
  await run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', context], { cwd: ROOT });
  return context;
}
