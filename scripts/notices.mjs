// Writes the licences of packages whose code a bundle contains.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Writes the licences of the packages that `sources` belong to. */
export function writeNotices(file, sources) {
  const sections = packagesOf(sources).map((name) => {
    const { version, license } = JSON.parse(
      readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8'),
    );
    return `${name} ${version} (${license})\n\n${licenseText(name).trim()}\n`;
  });
  const intro = 'exec-server contains code of these packages.\n';
  writeFileSync(file, [intro, ...sections].join(`\n${'-'.repeat(78)}\n\n`));
}

/** The names of the packages that paths in node_modules belong to. */
export function packagesOf(sources) {
  const names = sources.flatMap(
    (path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path.replaceAll('\\', '/'))?.[1] ?? [],
  );
  return [...new Set(names)].sort();
}

/** Packages that contain no licence text name their licence only. */
function licenseText(name) {
  const folder = join(root, 'node_modules', name);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e(?:\.|$)/i.test(entry));
  if (file !== undefined) return readFileSync(join(folder, file), 'utf8');
  const { homepage, repository } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return `The package contains no licence text: see ${homepage ?? repository?.url ?? repository ?? name}`;
}
