import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAgentTools } from '../../src/agent/toolset/index.ts';
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

  test('keeps the settings of editors and agents, and lets none be added', () =>
    using({ sandbox: 'workspace-write' }, {}, async (client, { root }) => {
      const settings = join(root, '.mcp.json');
      writeFileSync(settings, '{}');
      const cmd =
        'echo x >.mcp.json; mv .mcp.json moved; mkdir -p .claude/x .cursor/x .vscode/x; touch done; ls';
      expect((await client.call('exec_command', { cmd, login: false })).text).toContain('done');
      expect((await client.call('write_file', { path: '.mcp.json', content: 'x' })).isError).toBe(true);
      expect((await client.call('write_file', { path: '.vscode/tasks.json', content: 'x' })).isError).toBe(
        true,
      );
      expect(readFileSync(settings, 'utf8')).toBe('{}');
      expect(readdirSync(root).sort()).toEqual(['.mcp.json', 'done']);
    }));

  test('is refused when a root was replaced by a link', () =>
    using({ sandbox: 'workspace-write' }, {}, async (client, { root, options }) => {
      const sub = join(root, 'sub');
      mkdirSync(sub);
      const { environment } = options.environments[0]!;
      const tools = createAgentTools({
        environments: [{ name: 'remote', environment, roots: [sub] }],
        sandbox: 'workspace-write',
      });
      expect(await tools.call('write_file', { path: 'file', content: 'x' })).toMatchObject({
        isError: false,
      });
      renameSync(sub, `${sub}-moved`);
      symlinkSync(outside, sub);
      const later = createAgentTools({
        environments: [{ name: 'remote', environment, roots: [sub] }],
        sandbox: 'workspace-write',
      });
      for (const each of [tools, later]) {
        const wrote = await each.call('write_file', { path: 'file', content: 'x' });
        expect(wrote).toMatchObject({ isError: true, text: expect.stringContaining('leads elsewhere now') });
        expect((await each.call('exec_command', { cmd: 'touch ran', login: false })).isError).toBe(true);
      }
      expect(readdirSync(outside)).toEqual([]);
      expect((await client.call('list_directory', {})).isError).toBe(false);
    }));

  test('names a root by the link that the user gave', () =>
    using({ sandbox: 'workspace-write' }, {}, async (_client, { root, options }) => {
      const link = join(outside, 'link');
      symlinkSync(root, link);
      const { environment } = options.environments[0]!;
      const tools = createAgentTools({
        environments: [{ name: 'remote', environment, roots: [link] }],
        sandbox: 'workspace-write',
      });
      const wrote = await tools.call('write_file', { path: join(link, 'file'), content: 'x' });
      expect(wrote.isError).toBe(false);
      expect(existsSync(join(root, 'file'))).toBe(true);
      rmSync(link);
    }));

  test('takes no environment whose server runs in / without a root', () =>
    using({}, {}, async (_client, { root, options }) => {
      const { environment } = options.environments[0]!;
      const { backend, processes, files } = environment;
      const info = async () => ({ ...(await environment.info()), cwd: 'file:///' });
      const inRoot = { backend, processes, files, info };
      const toolsWith = (roots: readonly string[], sandbox: 'workspace-write' | 'off') =>
        createAgentTools({ environments: [{ name: 'far', environment: inRoot, roots }], sandbox });
      const path = join(root, 'file');
      const implicit = toolsWith([], 'workspace-write');
      const wrote = await implicit.call('write_file', { path, content: 'x' });
      expect(wrote).toMatchObject({ isError: true, text: expect.stringContaining('--root far:/DIR') });
      expect((await implicit.call('exec_command', { cmd: `touch ${path}`, login: false })).isError).toBe(
        true,
      );
      expect(existsSync(path)).toBe(false);
      expect(
        (await toolsWith(['/'], 'workspace-write').call('write_file', { path, content: 'x' })).isError,
      ).toBe(false);
      expect((await toolsWith([], 'off').call('write_file', { path, content: 'y' })).isError).toBe(false);
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
