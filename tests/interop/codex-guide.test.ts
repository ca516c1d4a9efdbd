import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ensureReference } from '../../scripts/reference.mjs';
import { startServerProcess } from '../../src/testing/index.ts';
import { Workspace } from '../unit/cli/run-cli.ts';
import { CodexRun } from './codex-client.ts';

const binary = await ensureReference().catch((error: Error) => error);
const why = binary instanceof Error ? ` (skipped: ${binary.message})` : '';

/** A port of this machine where nothing listens. */
const NOWHERE = 'ws://127.0.0.1:9';

describe.skipIf(binary instanceof Error)(`docs/guides/codex.md: codex${why}`, () => {
  test('takes its token from environments.toml; the scopes exec and files are enough', async () => {
    const { url, token } = await serverWithTokens();
    const run = await start({ url, authToken: await token('exec,files'), variableUrl: NOWHERE });
    expect(await run.exec('echo here')).toMatchObject({ exitCode: 0, output: 'here\n' });
    expect((await run.applyPatch('*** Add File: made', '+text')).output).toContain('A made');
    await run.finish();
    expect(readFileSync(join(run.workspace, 'made'), 'utf8')).toBe('text\n');
  });

  test('has no environment without a token', async () => {
    const { url } = await serverWithTokens();
    const run = await start({ url });
    expect((await run.exec('echo here')).text).toContain('No usable execution environment is available');
  });

  test.each(['workspace-write', 'danger-full-access'] as const)(
    'reports a working directory that the server lacks, with the sandbox %s',
    async (sandbox) => {
      const server = await startServerProcess();
      onTestFinished(() => server.close());
      const run = await start({ url: server.url, configuredBy: 'variable', sandbox });
      const workdir = join(run.workspace, 'absent');
      expect((await run.exec('pwd', { workdir })).text).toContain(`cwd ${workdir} does not exist`);
      await run.finish();
    },
  );
});

async function start(options: Omit<Parameters<typeof CodexRun.start>[0], 'binary'>): Promise<CodexRun> {
  const run = await CodexRun.start({ binary: binary as string, sandbox: 'workspace-write', ...options });
  onTestFinished(() => run.close());
  return run;
}

/** A server as the guide for teams starts it, and a function that signs a token with scopes. */
async function serverWithTokens() {
  const workspace = new Workspace();
  onTestFinished(() => workspace.close());
  const secret = join(workspace.path, 'secret');
  expect((await workspace.run(['token', '--out', secret])).code).toBe(0);
  const server = await startServerProcess([
    ...['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret],
  ]);
  onTestFinished(() => server.close());
  const token = async (scope: string) => {
    const flags = ['--secret-file', secret, '--subject', 'agent', '--scope', scope, '--expires-in', '8h'];
    return (await workspace.run(['token', 'signed', ...flags])).stdout.trim();
  };
  return { url: server.url, token };
}
