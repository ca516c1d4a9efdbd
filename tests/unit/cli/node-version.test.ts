import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { nodeVersionWarning } from '../../../src/cli/node-version.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

test.each(['20.19.0', '20.20.1', '22.12.0', '24.13.2', '26.0.0', '27.1.0'])('accepts Node %s', (version) => {
  expect(nodeVersionWarning(version)).toBeNull();
});

test.each(['18.20.8', '20.18.3', '21.7.3', '22.11.0', '23.11.1', '25.2.0'])(
  'warns about Node %s',
  (version) => {
    expect(nodeVersionWarning(version)).toBe(
      `exec-server: warning: Node ${version} is not supported and not tested; use Node 20.19, 22.12, 24 or 26, or a later release of these lines`,
    );
  },
);

test('the supported versions are those of package.json', () => {
  const { engines } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  expect(engines.node).toBe('^20.19.0 || ^22.12.0 || ^24.0.0 || >=26.0.0');
});

test('the program warns in one line on stderr and works', () => {
  const preload = `data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '23.1.0' })`;
  const program = ['--import', preload, `${root}dist/bin/exec-server.cjs`, 'config', '--json'];
  const { status, stdout, stderr } = spawnSync(process.execPath, program, { encoding: 'utf8' });
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toHaveProperty('settings');
  expect(stderr).toMatch(/^exec-server: warning: Node 23\.1\.0 [^\n]*\n$/);
});
