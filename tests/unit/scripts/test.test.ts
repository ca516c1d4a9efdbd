import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';

const SCRIPT = fileURLToPath(new URL('../../../scripts/test.mjs', import.meta.url));
const PARTS = {
  build: 'scripts/prepare.mjs',
  tools: 'scripts/test-tools.mjs',
  tests: 'node_modules/vitest/vitest.mjs',
  checks: 'scripts/check.mjs',
  site: 'website/build.mjs',
  'other versions of Node': 'scripts/test-nodes.mjs',
};

test('all parts run, and each that fails is reported', () => {
  const { status, stdout, stderr } = runParts(['tests', 'checks', 'other versions of Node']);
  expect(status).toBe(1);
  expect(outputOf(stdout + stderr)).toEqual(Object.keys(PARTS).sort());
  for (const name of ['build', 'tools']) expect(stderr).toMatch(new RegExp(`^npm test: ${name} passed`, 'm'));
  const [, failed] = /^npm test: failed: (.*)$/m.exec(stderr)!;
  expect(failed!.split(', ').sort()).toEqual(['checks', 'other versions of Node', 'tests']);
});

test('nothing is tested without a build', () => {
  const { status, stdout, stderr } = runParts(['build']);
  expect(status).toBe(1);
  expect(outputOf(stdout + stderr)).toEqual(['build', 'tools']);
  expect(stderr).toMatch(/^npm test: failed: build$/m);
});

test('exits with 0 when every part passes', () => {
  const { status, stderr } = runParts([]);
  expect({ status, failures: stderr.match(/failed/i) }).toEqual({ status: 0, failures: null });
});

/** Runs the script in a project whose parts print their name. Those in `failing` fail. */
function runParts(failing: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'exec-server-parts-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, file] of Object.entries(PARTS)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    const text = `console.log('output of ${name}'); process.exitCode = ${failing.includes(name) ? 1 : 0};`;
    writeFileSync(join(folder, file), text);
  }
  const scripts = { 'check:built': `node ${PARTS.checks}` };
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ scripts }));
  copyFileSync(SCRIPT, join(folder, 'scripts/test.mjs'));
  return spawnSync(process.execPath, [join(folder, 'scripts/test.mjs')], { encoding: 'utf8' });
}

function outputOf(text: string): string[] {
  return [...text.matchAll(/^output of (.*)$/gm)].map(([, name]) => name!).sort();
}
