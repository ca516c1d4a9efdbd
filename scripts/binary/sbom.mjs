// The components of the single executable in the format CycloneDX.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Describes an executable that contains these packages of node_modules, and Node. */
export function sbomOf(packages, nodeVersion) {
  const { name, version, license } = manifest(root);
  const self = { ...component(name, version, license), type: 'application' };
  const node = {
    type: 'platform',
    'bom-ref': `pkg:generic/node@${nodeVersion}`,
    name: 'node',
    version: nodeVersion,
    purl: `pkg:generic/node@${nodeVersion}`,
    licenses: [{ license: { id: 'MIT' } }],
  };
  const libraries = [...new Set(packages)].sort().map((path) => {
    const { name, version, license } = manifest(join(root, 'node_modules', path));
    return component(name, version, license);
  });
  const components = [node, ...libraries];
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: self },
    components,
    dependencies: [{ ref: self['bom-ref'], dependsOn: components.map((entry) => entry['bom-ref']) }],
  };
}

function component(name, version, license) {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  return { type: 'library', 'bom-ref': purl, name, version, purl, licenses: [{ expression: license }] };
}

function manifest(folder) {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
}
