// Writes the URL of the repository into all files. Its source is `repository` in package.json; `homepage` has the URL that the other files have
// until then. With --check it only reports files that name another repository.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { repositoryHome } from './repository-links.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const home = new URL(repositoryHome());
const path = home.pathname.slice(1);
if (process.argv.includes('--check')) check();
else write();

function write() {
  const old = new URL(manifest.homepage);
  const oldPath = old.pathname.slice(1);
  if (old.host === home.host && oldPath === path) return;
  const [url, step] = [`${old.origin}/${oldPath}`, `uses: ${oldPath}@`].map(escapePattern);
  for (const name of grep('-l', '-e', url, '-e', step)) {
    const file = join(root, name);
    const text = readFileSync(file, 'utf8')
      .replace(new RegExp(`${url}(?![\\w-])`, 'g'), home.href)
      .replace(new RegExp(step, 'g'), `uses: ${path}@`);
    writeFileSync(file, text);
  }
}

/** Repositories of the same name and another owner are copies of the URL that were forgotten. */
function check() {
  const problems = ['homepage', 'bugs']
    .filter((key) => !manifest[key].startsWith(home.href))
    .map((key) => `package.json: ${key} is ${manifest[key]}`);
  const name = escapePattern(path.split('/').at(-1));
  const named = grep(
    '-n',
    '-o',
    '-e',
    `(${escapePattern(home.host)}/|uses: )[A-Za-z0-9_.-]+/${name}([^A-Za-z0-9_-]|$)`,
  );
  problems.push(...named.filter((line) => !line.includes(`/${path}`) && !line.includes(` ${path}`)));
  if (problems.length === 0) return;
  process.stderr.write(
    `These name another repository than package.json, ${home.href}; run npm run generate, or correct them:\n${problems.join('\n')}\n`,
  );
  process.exitCode = 1;
}

/** The lines that `git grep` prints for the text files of the checkout, new ones included. */
function grep(...args) {
  const { status, stdout, stderr } = spawnSync('git', ['grep', '--untracked', '-I', '-E', ...args], {
    cwd: root,
    encoding: 'utf8',
  });
  if (status !== 0 && status !== 1) throw new Error(`git grep failed: ${stderr}`);
  return stdout.split('\n').filter((line) => line !== '');
}

function escapePattern(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
