import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureReference } from '../../scripts/reference.mjs';
import { startServer, type TestServer } from '../../src/testing/index.ts';
import { processOf } from '../support/mcp-server.ts';
import { CLI } from '../unit/cli/run-cli.ts';
import { CodexRun } from './codex-client.ts';

const binary: string | Error = await ensureReference().catch((error: Error) => error);
const why = binary instanceof Error ? ` (skipped: ${binary.message})` : '';

/** A codex whose model uses the tools of this project's MCP server. */
class McpUser {
  readonly run: CodexRun;

  private constructor(run: CodexRun) {
    this.run = run;
  }

  static async start(server: TestServer): Promise<McpUser> {
    const args = [CLI, 'mcp', '-E', server.url, '--sandbox', 'off'];
    const config = `
[mcp_servers.exec-server]
command = ${JSON.stringify(process.execPath)}
args = ${JSON.stringify(args)}
# codex waits for it before the first turn.
required = true
`;
    return new McpUser(
      await CodexRun.start({ binary: binary as string, url: '', configuredBy: 'none', config }),
    );
  }

  /** The text that the model reads of a result. */
  async call(name: string, args: Readonly<Record<string, unknown>>): Promise<string> {
    const { text } = await this.run.mcpTool('exec_server', name, args);
    const items: readonly { readonly text: string }[] = JSON.parse(text);
    return items.map((item) => item.text).join('\n');
  }
}

describe.skipIf(binary instanceof Error)(`codex with exec-server mcp${why}`, () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server?.close());

  async function using(work: (user: McpUser) => Promise<void>): Promise<void> {
    const user = await McpUser.start(server);
    try {
      await work(user);
      await user.run.finish();
    } finally {
      await user.run.close();
    }
  }

  test('runs a long command, types into it, edits and searches; another codex reads its output', async () => {
    let process = '';
    await using(async (user) => {
      const { workspace } = user.run;
      const cmd = 'read name; echo "hello $name"; until [ -e go ]; do sleep 0.05; done; echo done';
      const started = await user.call('exec_command', {
        cmd,
        workdir: workspace,
        tty: true,
        login: false,
        yield_time_ms: 250,
      });
      process = processOf(started);
      expect(started).toContain('wait_process');
      await user.call('write_stdin', { process, chars: 'bob\n' });
      expect(await user.call('wait_process', { process, pattern: 'hello bob' })).toContain('hello bob');

      const file = join(workspace, 'notes.txt');
      await user.call('write_file', { path: file, content: 'one\ntwo\nthree\n' });
      await user.call('edit_file', { path: file, old_text: 'two', new_text: 'zwei' });
      expect(readFileSync(file, 'utf8')).toBe('one\nzwei\nthree\n');
      expect(await user.call('search_files', { pattern: 'zwei', path: workspace })).toMatch(/notes\.txt.*2/);

      user.run.touch('go');
      expect(await user.call('wait_process', { process })).toMatch(/exited with code 0[\s\S]*done/);
    });
    await using(async (user) => {
      const output = await user.call('read_output', { process, cursor: '0.0' });
      expect(output).toMatch(/exited with code 0[\s\S]*hello bob[\s\S]*done/);
    });
  });
});
