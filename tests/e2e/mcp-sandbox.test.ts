import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectMcp, type McpClient } from '../support/mcp-client.ts';
import { McpFixture } from '../support/mcp-server.ts';

/** A directory that is no root. Not in /tmp, which every sandbox may write. */
let outside: string;

beforeAll(() => {
  outside = realpathSync(mkdtempSync('/var/tmp/mcp-outside-'));
});

afterAll(() => rmSync(outside, { recursive: true, force: true }));

async function using(
  options: Parameters<typeof McpFixture.open>[0],
  config: Parameters<typeof McpFixture.open>[1],
  work: (client: McpClient, fixture: McpFixture) => Promise<void>,
): Promise<void> {
  const fixture = await McpFixture.open(options, config);
  const client = await connectMcp('2025-11-25', { servers: fixture.servers, log: fixture.options.log });
  try {
    await work(client, fixture);
  } finally {
    await client.close();
    await fixture.close();
  }
}

describe('workspace-write', () => {
  test('lets programs and file tools change the workspace and nothing else', () =>
    using({ sandbox: 'workspace-write' }, {}, async (client, { root }) => {
      const file = join(outside, 'file');
      const cmd = `touch ${file}; touch ${join(root, 'inside')}; ls ${root}`;
      expect((await client.call('exec_command', { cmd, login: false })).text).toContain('inside');
      const refused = await client.call('write_file', { path: file, content: 'x' });
      expect(refused.isError).toBe(true);
      expect(existsSync(file)).toBe(false);
    }));

  test('is refused where it cannot be enforced, with both ways out', () =>
    using({ sandbox: 'workspace-write' }, { bwrapPath: '/bin/false' }, async (client, { root }) => {
      const ran = await client.call('exec_command', { cmd: `touch ${root}/ran`, login: false });
      expect(ran.isError).toBe(true);
      expect(ran.text).toMatch(/exec-server doctor/);
      expect(ran.text).toMatch(/--sandbox off/);
      const wrote = await client.call('write_file', { path: 'wrote', content: 'x' });
      expect(wrote).toMatchObject({ isError: true, text: expect.stringMatching(/--sandbox off/) });
      expect(existsSync(join(root, 'ran')) || existsSync(join(root, 'wrote'))).toBe(false);
    }));
});

test('read-only lets nothing change', () =>
  using({ sandbox: 'read-only' }, {}, async (client, { root }) => {
    await client.call('exec_command', { cmd: `touch ${root}/file`, login: false });
    expect((await client.call('write_file', { path: 'file', content: 'x' })).isError).toBe(true);
    expect(existsSync(join(root, 'file'))).toBe(false);
  }));

test('--read-only offers no tool that changes anything', () =>
  using({ readOnly: true }, {}, async (client) => {
    const names = (await client.tools()).map(({ name }) => name);
    expect(names).toContain('read_file');
    for (const name of ['exec_command', 'write_stdin', 'kill_process', 'write_file', 'edit_file']) {
      expect(names).not.toContain(name);
      await expect(client.call(name, {})).rejects.toThrow(/Unknown tool/);
    }
  }));
