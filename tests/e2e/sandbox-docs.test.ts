import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { doctorCommand } from '../../src/cli/doctor-command.ts';
import { nativePathOfText } from '../../src/files/native-path.ts';
import { Sandbox } from '../../src/protocol/sandbox.ts';
import { validateParams } from '../../src/protocol/validate.ts';
import { MAX_HELPERS } from '../../src/sandbox/files/limits.ts';
import {
  MAX_DENY_GLOBS,
  MAX_GLOB_DIRECTORIES,
  MAX_GLOB_MATCHES,
  MAX_POLICY_ENTRIES,
} from '../../src/sandbox/limits.ts';
import { MAX_PLACEHOLDERS } from '../../src/sandbox/linux/limits.ts';
import { PROTECTED_NAMES, policyOf } from '../../src/sandbox/policy/normalize.ts';
import { accessOf } from '../../src/sandbox/policy/policy.ts';
import { startServer } from '../../src/testing/index.ts';

const root = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const PAGE = readFileSync(root('docs/guides/sandbox.md'), 'utf8');

function blocks(language: string): string[] {
  const pattern = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g');
  return [...PAGE.matchAll(pattern)].map((match) => match[1]!);
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sandbox-docs-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

test('the sandbox objects of the page grant the access that the page describes', () => {
  const policies = blocks('json sandbox').map((text) =>
    policyOf(validateParams(Sandbox(), JSON.parse(text)), { cwd: null, tmpdir: '/var/tmp' }),
  );
  expect(policies).toHaveLength(3);
  const access = (index: number, path: string) => accessOf(policies[index]!.disk, nativePathOfText(path));
  expect(access(0, '/srv/project/x')).toBe('read');
  for (const path of ['/srv/project/x', '/srv/cache/x', '/tmp/x', '/var/tmp/x']) {
    expect(access(1, path)).toBe('write');
  }
  expect(access(1, '/srv/x')).toBe('read');
  expect(access(2, '/srv/project/x')).toBe('write');
  expect(access(2, '/srv/project/keys/x')).toBe('deny');
  expect(access(2, '/srv/project/sub/.env')).toBe('deny');
  for (const name of PROTECTED_NAMES) {
    expect(PAGE).toContain(`\`${name}\``);
    expect(access(2, `/srv/project/${name}/x`)).toBe('read');
  }
  for (const { network } of policies) expect(network).toBe('restricted');
});

test('the minimum sandbox of the page applies to a request without a sandbox', async () => {
  const [floor] = blocks('json floor');
  const file = join(folder, 'floor.json');
  writeFileSync(file, floor!);
  const server = await startServer({ minSandbox: file });
  const client = await server.connect();
  const { sandboxType } = await client.call('process/start', {
    processId: 'p',
    argv: ['/bin/sh', '-c', `echo > ${folder}/x; ls /root >/dev/null`],
    cwd: 'file:///',
    env: {},
    tty: false,
  });
  const { exitCode } = await client.closedProcess('p');
  expect(sandboxType).toBe('linuxSeccomp');
  expect(exitCode).not.toBe(0);
  expect(existsSync(join(folder, 'x'))).toBe(false);
  await server.close();
});

test('the report of doctor has the members that the page shows', async () => {
  const [shown] = blocks('json doctor').map((text) => JSON.parse(text));
  const report = JSON.parse((await doctorCommand(['--json'], process.env)).text);
  expect(Object.keys(report)).toEqual(Object.keys(shown));
  expect(Object.keys(report.checks[0])).toEqual(Object.keys(shown.checks[0]));
});

test('the limits of the page are those of the code', () => {
  const numbers = [
    MAX_POLICY_ENTRIES,
    MAX_DENY_GLOBS,
    MAX_GLOB_MATCHES,
    MAX_GLOB_DIRECTORIES,
    MAX_PLACEHOLDERS,
  ];
  const table = PAGE.slice(PAGE.indexOf('| limit |'), PAGE.indexOf('## What is not covered'));
  for (const number of numbers) expect(table).toMatch(new RegExp(`\\b${number.toLocaleString('en')} `));
  expect(table).toContain(`${MAX_HELPERS} helpers`);
});
