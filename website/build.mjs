// Builds the documentation site into website/dist: the pages of docs/, and the reference of the library from its declarations.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { copyPages, llmsText, sidebarOf } from './pages.mjs';
import { brokenLinks, correctAnchors } from './site-links.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const pages = join(here, '.pages');
const { description, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

installTools();
rmSync(pages, { recursive: true, force: true });
mkdirSync(join(pages, 'public'), { recursive: true });
const names = copyPages(root, pages);
const modules = documentModules();
correctAnchors(join(pages, 'api'));
writeFileSync(join(pages, 'sidebar.json'), JSON.stringify(sidebarOf(root, modules)));
writeFileSync(join(pages, 'public/llms.txt'), llmsText(pages, names, description));
// The index names the pages in Markdown.
for (const name of names) cpSync(join(pages, name), join(pages, 'public', name));
run('vitepress', ['build', here]);
const broken = brokenLinks(join(here, 'dist'), process.env.DOCS_BASE);
if (broken.length > 0) {
  process.stderr.write(`These links lead nowhere:\n${broken.join('\n')}\n`);
  process.exit(1);
}
console.log('The site is in website/dist.');

/** Installs the tools of the site if the lock file has changed since. */
function installTools() {
  const installed = join(here, 'node_modules/.package-lock.json');
  const lock = join(here, 'package-lock.json');
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: here, stdio: 'inherit' });
}

/** Writes a page for each entry point of the package and returns links to them. */
function documentModules() {
  const folder = join(here, '.entries');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const entries = Object.entries(exports).flatMap(([path, { types }]) => (types ? [{ path, types }] : []));
  // An export is described in the first module that has it, and `exec-server` repeats those of others.
  entries.reverse();
  const entryPoints = entries.map(({ path, types }) => {
    const name = posix.join('exec-server', path);
    const file = join(folder, `${name.replaceAll('/', '-')}.ts`);
    writeFileSync(
      file,
      `/** @module ${name} */\nexport * from '../../${types.slice(2).replace(/\.d\.ts$/, '.js')}';\n`,
    );
    return file;
  });
  const options = {
    entryPoints,
    tsconfig: join(here, 'tsconfig.json'),
    plugin: ['typedoc-plugin-markdown'],
    out: join(pages, 'api'),
    name: 'Library',
    readme: 'none',
    entryFileName: 'index',
    outputFileStrategy: 'modules',
    disableSources: true,
    hideBreadcrumbs: true,
    hidePageHeader: true,
    validation: false,
    logLevel: 'Error',
  };
  writeFileSync(join(folder, 'typedoc.json'), JSON.stringify(options));
  run('typedoc', ['--options', join(folder, 'typedoc.json')]);
  const index = readFileSync(join(pages, 'api/index.md'), 'utf8');
  return [...index.matchAll(/^- \[(.*)\]\((.*)\.md\)$/gm)].map(([, text, page]) => ({
    text,
    link: `/api/${page}`,
  }));
}

function run(tool, args) {
  const { bin } = JSON.parse(readFileSync(join(here, 'node_modules', tool, 'package.json'), 'utf8'));
  const program = join(here, 'node_modules', tool, typeof bin === 'string' ? bin : bin[tool]);
  execFileSync(process.execPath, [program, ...args], { cwd: here, stdio: 'inherit' });
}
