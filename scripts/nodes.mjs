// The versions of Node that are supported: binaries from npm for tests, fetched on demand and never a dependency of the package.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ensurePackage } from './package-cache.mjs';

/** One version of every supported release line. The first is the oldest that `engines` in package.json allows. */
export const NODE_VERSIONS = ['20.19.6', '22.23.3', '24.21.0', '26.10.0'];

/** The versions of the other release lines. `npm run test:nodes` tests the oldest of this line too. */
export function otherNodeVersions() {
  const lineOf = (version) => version.split('.')[0];
  return NODE_VERSIONS.filter((version) => lineOf(version) !== lineOf(process.versions.node));
}

/**
 * Path of a Node binary. It is in the package that the npm package `node` installs for this system by a script; this one needs no
 * script.
 */
export function ensureNode(version, arch = process.arch) {
  const name = `node-${process.platform}-${arch}`;
  const find = (folder) => {
    const binary = join(folder, 'node_modules', name, 'bin', 'node');
    return existsSync(binary) ? binary : undefined;
  };
  return ensurePackage(name, version, find, arch === process.arch ? [] : ['--force']);
}

/** Whether tests on other versions of Node are switched off, for machines without a network. */
export function nodesAreSkipped() {
  return process.env.SKIP_OTHER_NODES === '1';
}
