// Builds the documentation site into website/dist: the pages of docs/, and the reference of the library from its declarations. Fails when a link
// leads nowhere, or when a page, its entry in the search or its line in llms.txt is missing.
//
//   node website/build.mjs            needs the build of the package
//   node website/build.mjs --check    builds a smaller site to check, into website/.check: without the reference of the library, and without colours
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { COMMANDS } from '../dist/cli/commands.js';
import { METHODS } from '../dist/protocol/registry.js';
import { copyPages, llmsText, sidebarOf } from './pages.mjs';
import { missingContents } from './site-contents.mjs';
import { brokenLinks, correctAnchors } from './site-links.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const isCheck = process.argv.includes('--check');
// The configuration of VitePress reads these. The folders are below website/.
const folders = isCheck
  ? { DOCS_PAGES: '.check/pages', DOCS_SITE: '.check/dist' }
  : { DOCS_PAGES: '.pages', DOCS_SITE: 'dist' };
const pages = join(here, folders.DOCS_PAGES);
const site = join(here, folders.DOCS_SITE);
const { description, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

installTools();
rmSync(pages, { recursive: true, force: true });
mkdirSync(join(pages, 'public'), { recursive: true });
const names = copyPages(root, pages);
const modules = isCheck ? emptyReference() : documentModules();
correctAnchors(join(pages, 'api'));
writeFileSync(join(pages, 'sidebar.json'), JSON.stringify(sidebarOf(root, modules)));
writeFileSync(join(pages, 'public/llms.txt'), llmsText(pages, names, description));
// The index names the pages in Markdown.
for (const name of [...names, 'api'])
  cpSync(join(pages, name), join(pages, 'public', name), { recursive: true });
run('vitepress', ['build', here]);
const contents = {
  pages: names,
  apiPages: ['/api/index', ...modules.map(({ link }) => link)].map((link) => `${link.slice(1)}.md`),
  commands: COMMANDS.map(({ name }) => name),
  methods: Object.keys(METHODS),
};
const problems = [
  ...brokenLinks(site, process.env.DOCS_BASE).map((link) => `this link leads nowhere: ${link}`),
  ...missingContents(site, contents),
];
if (problems.length > 0) {
  process.stderr.write(`The site has problems:\n${problems.join('\n')}\n`);
  process.exit(1);
}
console.log(`The site is in website/${folders.DOCS_SITE}.`);

/** Installs the tools of the site if the lock file has changed since. */
function installTools() {
  const installed = join(here, 'node_modules/.package-lock.json');
  const lock = join(here, 'package-lock.json');
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: here, stdio: 'inherit' });
}

/** TypeDoc takes longer than everything else. */
function emptyReference() {
  mkdirSync(join(pages, 'api'));
  writeFileSync(join(pages, 'api/index.md'), '# Library\n');
  return [];
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
  const links = Array.from(index.matchAll(/^- \[(.*)\]\((.*)\.md\)$/gm), ([, text, page]) => ({
    text,
    link: `/api/${page}`,
  }));
  const missing = entries
    .map(({ path }) => posix.join('exec-server', path))
    .filter((name) => !links.some(({ text }) => text === name));
  if (missing.length > 0)
    throw new Error(`the reference of the library has no page for ${missing.join(', ')}`);
  return links;
}

function run(tool, args) {
  const { bin } = JSON.parse(readFileSync(join(here, 'node_modules', tool, 'package.json'), 'utf8'));
  const program = join(here, 'node_modules', tool, typeof bin === 'string' ? bin : bin[tool]);
  execFileSync(process.execPath, [program, ...args], {
    cwd: here,
    stdio: 'inherit',
    env: { ...process.env, ...folders },
  });
}
