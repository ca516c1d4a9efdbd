// Writes the version of package.json into the files that repeat it. With --check it only compares them.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { repositoryHome } from './repository-links.mjs';

/** Each file, and the pattern of the versions in it. */
const COPIES = [
  ['src/observability/version.ts', /(?<=VERSION = ')[^']*/g],
  ['deploy/helm/exec-server/Chart.yaml', /(?<=^(?:version|appVersion): ).*$/gm],
  ['docs/guides/ci.md', new RegExp(`(?<=uses: ${new URL(repositoryHome()).pathname.slice(1)}@v)\\S+`, 'g')],
];

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
for (const [name, pattern] of COPIES) {
  const file = join(root, name);
  const text = readFileSync(file, 'utf8');
  if (text.search(pattern) === -1) throw new Error(`${name} has no version`);
  const current = text.replace(pattern, version);
  if (current === text) continue;
  if (process.argv.includes('--check')) {
    process.stderr.write(`${name} has another version than package.json: run npm run generate\n`);
    process.exitCode = 1;
  } else writeFileSync(file, current);
}
