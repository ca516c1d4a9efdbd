// Builds the bin: the CLI as three bundles, each with a V8 code cache for the Node that builds. A start then reads three files instead of two
// hundred and compiles none, which is most of the start time. Native code stays outside and is loaded when the first program starts.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BUNDLES, bundleCli } from './bundle-cli.mjs';
import { bundleFileHelper } from './bundle-file-helper.mjs';
import { writeNotices } from './notices.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'dist/bin');

/** Packages that the installed package has in its node_modules, and that few commands use. */
const EXTERNAL = ['@redis/client', 'yaml', '@xterm/headless', '@xterm/addon-unicode11'];

mkdirSync(folder, { recursive: true });
const { texts, sources } = await bundleCli({ external: EXTERNAL });
const names = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, write(name, text)]));
const bin = join(folder, 'exec-server.cjs');
const newBin = `${bin}.${process.pid}.cjs`;
/**
 * Node takes --env-file and the like for itself, also behind the name of a program, unless `--` comes first. So a shell starts it. The
 * second line is a command for the shell, and a text with a comment for Node.
 */
const START = `#!/usr/bin/env sh\n':' //; exec node -- "$0" "$@"\n`;
const loader = readFileSync(join(root, 'scripts/bin-loader.cjs'), 'utf8')
  .replace('BUNDLES', JSON.stringify(BUNDLES))
  .replace('BUNDLE_NAMES', JSON.stringify(names));

writeFileSync(newBin, START + loader);
chmodSync(newBin, 0o755);
for (const name of Object.keys(names)) writeCodeCache(name);
// The rename is atomic: a bin that is started during the build is the old one or the new one.
renameSync(newBin, bin);
for (const file of readdirSync(folder)) {
  const isCurrent = Object.values(names).some((name) => file.startsWith(name));
  if (file.startsWith('bundle-') && !isCurrent) rmSync(join(folder, file));
}

const helperSources = await bundleFileHelper({ source: join(root, 'dist'), extension: 'js', folder });
writeNotices(join(root, 'dist/THIRD_PARTY_NOTICES.txt'), [...sources, ...helperSources]);

/** Writes a bundle and returns the name of its file, which contains a hash of its content. */
function write(bundle, text) {
  const name = `bundle-${bundle}-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
  writeFileSync(join(folder, `${name}.js`), text);
  return name;
}

/** Without the code cache the bin works too, but starts some milliseconds later. Caches of the user are neither used nor written. */
function writeCodeCache(bundle) {
  const { NODE_DISABLE_COMPILE_CACHE, HOME, XDG_CACHE_HOME, ...env } = process.env;
  const script = join(root, 'scripts/compile-bundle.cjs');
  const { status } = spawnSync(process.execPath, [script, newBin, bundle], {
    env,
    // A pipe: the bin does not write to files, /dev/null among them, through process.stdout.write, which the script replaces.
    stdio: ['ignore', 'pipe', 2],
  });
  if (status !== 0) process.stderr.write('bundle-bin: could not write the code cache\n');
}
