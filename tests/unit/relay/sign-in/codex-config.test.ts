import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readCodexConfig } from '../../../../src/relay/sign-in/codex-config.ts';

function home(toml: string): string {
  const path = mkdtempSync(join(tmpdir(), 'codex-config-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  writeFileSync(join(path, 'config.toml'), toml);
  return path;
}

test('values of the command line replace those of the file', async () => {
  const path = home('forced_login_method = "api"\ncli_auth_credentials_store = "auto"\n');
  expect(await readCodexConfig(path)).toMatchObject({ forcedLoginMethod: 'api', store: 'auto' });
  const overrides = { forced_login_method: 'chatgpt', forced_chatgpt_workspace_id: '["a", "b"]' };
  expect(await readCodexConfig(path, overrides)).toMatchObject({
    forcedLoginMethod: 'chatgpt',
    workspaces: ['a', 'b'],
    store: 'auto',
  });
});

test('the error of an invalid value names its source', async () => {
  const path = home('cli_auth_credentials_store = "nowhere"\n');
  const store = `${join(path, 'config.toml')}: cli_auth_credentials_store must be one of`;
  await expect(readCodexConfig(path)).rejects.toThrow(store);
  const overrides = { cli_auth_credentials_store: 'file', forced_login_method: '"none"' };
  await expect(readCodexConfig(path, overrides)).rejects.toThrow(/^-c forced_login_method must be one of/);
});
