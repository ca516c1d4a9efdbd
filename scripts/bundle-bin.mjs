// Builds the bin: the CLI as one file, with a V8 code cache for the Node that builds. A start then reads three files instead of two
// hundred and compiles none, which is most of the start time. Native code stays outside and is loaded when the first program starts.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleCli } from './bundle-cli.mjs';
import { bundleFileHelper } from './bundle-file-helper.mjs';
import { writeNotices } from './notices.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'dist/bin');

/** Packages that the installed package has in its node_modules, and that few commands use. */
const EXTERNAL = ['@redis/client', 'yaml', '@xterm/headless', '@xterm/addon-unicode11'];

mkdirSync(folder, { recursive: true });
const bundles = await bundleCli({ external: EXTERNAL });
const main = write('bundle', bundles.main);
const mcp = write('bundle-mcp', bundles.mcp);
const bin = join(folder, 'exec-server.cjs');
const newBin = `${bin}.${process.pid}.cjs`;
/**
 * Node takes --env-file and the like for itself, also behind the name of a program, unless `--` comes first. So a shell starts it. The
 * second line is a command for the shell, and a text with a comment for Node.
 */
const START = `#!/usr/bin/env sh\n':' //; exec node -- "$0" "$@"\n`;
const loader = readFileSync(join(root, 'scripts/bin-loader.cjs'), 'utf8')
  .replaceAll('MAIN_BUNDLE', main)
  .replaceAll('MCP_BUNDLE', mcp);

writeFileSync(newBin, START + loader);
chmodSync(newBin, 0o755);
writeCodeCache('serve');
writeCodeCache('mcp');
// The rename is atomic: a bin that is started during the build is the old one or the new one.
renameSync(newBin, bin);
for (const file of readdirSync(folder)) {
  if (file.startsWith('bundle-') && !file.startsWith(main) && !file.startsWith(mcp))
    rmSync(join(folder, file));
}

const helperSources = await bundleFileHelper({ source: join(root, 'dist'), extension: 'js', folder });
writeNotices(join(root, 'dist/THIRD_PARTY_NOTICES.txt'), [...bundles.sources, ...helperSources]);

/** Writes a bundle and returns its name, which contains a hash of its content. */
function write(prefix, text) {
  const name = `${prefix}-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
  writeFileSync(join(folder, `${name}.js`), text);
  return name;
}

/** Without the code cache the bin works too, but starts some milliseconds later. Caches of the user are neither used nor written. */
function writeCodeCache(command) {
  const { NODE_DISABLE_COMPILE_CACHE, HOME, XDG_CACHE_HOME, ...env } = process.env;
  const script = join(root, 'scripts/compile-bundle.cjs');
  const { status } = spawnSync(process.execPath, [script, newBin, command], {
    env,
    stdio: ['ignore', 'ignore', 2],
  });
  if (status !== 0) process.stderr.write('bundle-bin: could not write the code cache\n');
}
