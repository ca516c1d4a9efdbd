// Writes the version of package.json into src/observability/version.ts. With --check it only compares them.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const file = join(root, 'src/observability/version.ts');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const text = `/** The version of package.json, which bundles do not have. Written by scripts/generate-version.mjs. */
export const VERSION = '${version}';
`;
if (!process.argv.includes('--check')) writeFileSync(file, text);
else if (readFileSync(file, 'utf8') !== text) {
  process.stderr.write(
    'src/observability/version.ts is not the version of package.json: run npm run generate\n',
  );
  process.exitCode = 1;
}
