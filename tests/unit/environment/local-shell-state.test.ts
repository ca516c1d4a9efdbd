import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StartParams } from '../../../src/client/backend.ts';
import { outputTextOf } from '../../../src/client/process/output.ts';
import { LocalEnvironment } from '../../../src/environment/local-environment.ts';
import { plain } from '../../support/programs.ts';

let home: string;
let local: LocalEnvironment;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'local-shell-state-'));
  local = new LocalEnvironment();
});
afterEach(async () => {
  await local.dispose();
  rmSync(home, { recursive: true });
});

/** Each login appends a line to a file and defines a function for commands. */
const profile = () =>
  writeFileSync(
    join(home, '.bash_profile'),
    'echo login >> "$HOME/logins"; greeting() { echo "hello $1"; }\n',
  );
const logins = () => readFileSync(join(home, 'logins'), 'utf8').split('\n').length - 1;

async function printed(processId: string, script: string, more: Partial<StartParams> = {}): Promise<string> {
  const process = await local.backend.start({
    ...plain,
    processId,
    argv: ['/bin/bash', '-lc', script],
    env: { HOME: home, PATH: '/usr/bin:/bin' },
    shellSnapshot: { scopeId: 's', shell: { name: 'bash', path: '/bin/bash' } },
    ...more,
  } as StartParams);
  let text = '';
  for await (const piece of outputTextOf(process)) text += piece.text;
  return text;
}

test('login commands share the state of one login, as on a server', async () => {
  profile();
  expect(await printed('a', 'greeting you')).toBe('hello you\n');
  expect(await printed('b', 'greeting me')).toBe('hello me\n');
  expect(logins()).toBe(1);
  appendFileSync(join(home, '.bash_profile'), 'greeting() { echo changed; }\n');
  const scope = { scopeId: 'other', shell: { name: 'bash', path: '/bin/bash' } };
  expect(await printed('c', 'greeting me', { shellSnapshot: scope })).toBe('changed\n');
});

test('without a snapshot each command logs in', async () => {
  profile();
  await printed('a', 'true', { shellSnapshot: null });
  await printed('b', 'true', { shellSnapshot: null });
  expect(logins()).toBe(2);
});

test('a sandboxed command gets the shell state of the same sandbox', async () => {
  profile();
  const sandbox = { type: 'readOnly' } as unknown as StartParams['sandbox'];
  expect(await printed('a', 'greeting you; touch "$HOME/x" 2>&1 || echo denied', { sandbox })).toMatch(
    /^hello you\n[\s\S]*denied\n$/,
  );
});

test('rejects an invalid scope like a server', async () => {
  const shellSnapshot = { scopeId: '', shell: { name: 'bash', path: '/bin/bash' } };
  await expect(printed('a', 'true', { shellSnapshot })).rejects.toMatchObject({
    kind: 'invalidInput',
    code: -32602,
  });
});

test('the environment reports the capability', async () => {
  expect((await local.info()).capabilities).toMatchObject({ shellSnapshotV2: true });
});
