import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

const root = join(import.meta.dirname, '../../..');
const COPIES = ['src/observability/version.ts', 'deploy/helm/exec-server/Chart.yaml', 'docs/guides/ci.md'];

/** A folder with the manifest, the script and the files that repeat the version. */
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'version-'));
  const scripts = ['scripts/generate-version.mjs', 'scripts/repository-links.mjs'];
  for (const name of ['package.json', ...scripts, ...COPIES]) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    cpSync(join(root, name), join(folder, name));
  }
});
afterEach(() => rmSync(folder, { recursive: true }));

const read = (name: string) => readFileSync(join(folder, name), 'utf8');

function generate(...args: string[]) {
  const script = join(folder, 'scripts/generate-version.mjs');
  const { status, stderr } = spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' });
  return { status, stderr };
}

test('writes the version of package.json into the files that repeat it', () => {
  expect(generate('--check')).toEqual({ status: 0, stderr: '' });
  const manifest = JSON.parse(read('package.json'));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, version: '7.8.9-rc.1' }));
  const { status, stderr } = generate('--check');
  expect(status).toBe(1);
  for (const name of COPIES) expect(stderr).toContain(`${name} has another version`);

  expect(generate()).toEqual({ status: 0, stderr: '' });
  expect(generate('--check')).toEqual({ status: 0, stderr: '' });
  for (const name of COPIES) {
    expect(read(name)).toContain('7.8.9-rc.1');
    expect(read(name)).not.toContain(manifest.version);
  }
});
