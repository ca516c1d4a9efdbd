import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

const root = join(import.meta.dirname, '../../..');
const OLD = 'https://git.example/someone/tool';
const NEW = 'https://git.example/team/tool';

/** A checkout whose files name the repository OLD. */
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'repository-'));
  for (const name of ['generate-repository.mjs', 'repository-links.mjs']) {
    mkdirSync(join(folder, 'scripts'), { recursive: true });
    cpSync(join(root, 'scripts', name), join(folder, 'scripts', name));
  }
  writeManifest(OLD);
  write('README.md', `See ${OLD}/blob/main/a.md, ${OLD}-more and ${OLD}.\n\n- uses: someone/tool@v1.0.0\n`);
  write('docs/page.md', `[All](${OLD}).\n`);
  execFileSync('git', ['init', '--quiet'], { cwd: folder });
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(name: string, text: string) {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

function writeManifest(repository: string) {
  const links = { homepage: `${OLD}#readme`, bugs: `${OLD}/issues` };
  write('package.json', JSON.stringify({ repository: { url: `git+${repository}.git` }, ...links }));
}

const read = (name: string) => readFileSync(join(folder, name), 'utf8');

function generate(...args: string[]) {
  const script = join(folder, 'scripts/generate-repository.mjs');
  const { status, stderr } = spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' });
  return { status, stderr };
}

test('writes the repository of package.json into every file', () => {
  writeManifest(NEW);
  const { status, stderr } = generate('--check');
  expect(status).toBe(1);
  for (const place of ['homepage', 'bugs', 'README.md:1:', 'README.md:3:', 'docs/page.md:1:'])
    expect(stderr).toContain(place);

  expect(generate()).toEqual({ status: 0, stderr: '' });
  expect(read('README.md')).toBe(
    `See ${NEW}/blob/main/a.md, ${OLD}-more and ${NEW}.\n\n- uses: team/tool@v1.0.0\n`,
  );
  expect(read('docs/page.md')).toBe(`[All](${NEW}).\n`);
  expect(JSON.parse(read('package.json'))).toMatchObject({
    homepage: `${NEW}#readme`,
    bugs: `${NEW}/issues`,
  });
  expect(generate('--check')).toEqual({ status: 0, stderr: '' });
});

test('changes nothing when all files name the repository, and reports a file that names another', () => {
  const before = read('README.md');
  expect(generate()).toEqual({ status: 0, stderr: '' });
  expect(read('README.md')).toBe(before);
  expect(generate('--check')).toEqual({ status: 0, stderr: '' });
  write('docs/page.md', 'See https://git.example/fork/tool/issues.\n');
  expect(generate('--check').stderr).toContain('docs/page.md:1:git.example/fork/tool');
});
