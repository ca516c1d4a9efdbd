import { chmod, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AgentTools, ToolResult } from '../../src/agent/toolset/index.ts';
import { openToolBench, type ToolBench } from '../support/agent-tools.ts';

let bench: ToolBench;
let root: string;

beforeAll(async () => {
  bench = await openToolBench();
  root = bench.root;
});

afterAll(() => bench?.close());

async function call(name: string, args: object, tools: AgentTools = bench.tools): Promise<ToolResult> {
  return tools.tool(name)!.call(args);
}

describe('a sandbox', () => {
  let confined: AgentTools;
  let readOnly: AgentTools;

  beforeAll(async () => {
    confined = await bench.another({ sandbox: 'workspace-write' });
    readOnly = await bench.another({ sandbox: 'read-only' });
    await symlink('/etc/passwd', join(root, 'leak'));
    await symlink('/etc', join(root, 'etc'));
    await writeFile(join(root, 'inside.txt'), 'inside\n');
    await mkdir(join(root, 'tree'));
    await writeFile(join(root, 'tree/main.ts'), 'const needle = 1;\n');
  });

  test('confines file tools to the roots, also through links', async () => {
    expect((await call('read_file', { path: 'inside.txt' }, confined)).structured.content).toBe('inside');
    for (const path of ['/etc/passwd', '../x', 'file:///etc/passwd']) {
      expect(await call('read_file', { path }, confined)).toMatchObject({
        isError: true,
        text: expect.stringContaining('is outside of the workspace'),
      });
    }
    const leak = await call('read_file', { path: 'leak' }, confined);
    expect(leak).toMatchObject({
      isError: true,
      text: expect.stringContaining('leads out of the workspace'),
    });
    for (const [tool, args] of [
      ['read_file', { path: 'etc/passwd' }],
      ['list_directory', { path: 'etc' }],
      ['search_files', { path: 'etc', glob: '*' }],
      ['write_file', { path: 'etc/new', content: 'x' }],
      ['edit_file', { path: 'leak', old_text: 'root', new_text: 'x' }],
    ] as const) {
      expect(await call(tool, args, confined), tool).toMatchObject({ isError: true });
    }
    for (const args of [
      { path: 'leak', content: 'x' },
      { path: 'etc/new', content: 'x' },
      { path: 'etc/new', content: 'x', create_parents: true },
    ]) {
      expect((await call('write_file', args, confined)).text, args.path).toMatch(
        /is a link that leads out of the workspace or to a path that does not exist\.$/,
      );
    }
    const uri = `exec-server://box/files${root}/leak`;
    await expect(confined.readResource(uri)).rejects.toThrow('leads out of the workspace');
  });

  test('lists nothing that only the sandbox has, also while a program runs, and what has such a name', async () => {
    const project = join(root, 'project');
    await mkdir(join(project, '.git'), { recursive: true });
    await writeFile(join(project, '.git/HEAD'), 'ref');
    await chmod(join(project, '.git'), 0o555);
    await writeFile(join(project, 'file'), '');
    const tools = await bench.another({ sandbox: 'workspace-write', roots: [project] });
    const run = await call('exec_command', { cmd: 'sleep 60', login: false, yield_time_ms: 250 }, tools);
    // The names that the sandbox protects exist on the host as long as the program runs.
    expect(await readdir(project)).toContain('.mcp.json');
    for (const each of [tools, await bench.another({ roots: [project] })]) {
      const { entries } = (await call('list_directory', {}, each)).structured;
      expect((entries as { path: string }[]).map(({ path }) => path)).toEqual(['.git', 'file']);
      const found = await call('search_files', { glob: '.*', include_hidden: true }, each);
      expect(found.structured.paths).toEqual(['.git/']);
    }
    await call('kill_process', { process: run.structured.process }, tools);
    await chmod(join(project, '.git'), 0o755);
  });

  test('lets programs and file tools write to the roots only', async () => {
    expect(await call('write_file', { path: 'made.txt', content: '1' }, confined)).toMatchObject({
      isError: false,
    });
    expect(await readFile(join(root, 'made.txt'), 'utf8')).toBe('1');
    const denied = await call(
      'exec_command',
      { cmd: 'echo 2 > made.txt; cat made.txt; touch /usr/made', login: false },
      confined,
    );
    expect(denied.structured).toMatchObject({
      sandbox_denied: true,
      output: expect.stringMatching(/^2\n.*Read-only file system/s),
    });
    expect(denied.text).toContain(`it may write only to ${root}, /tmp, `);
  });

  test('that is read-only refuses changes', async () => {
    expect((await call('read_file', { path: 'inside.txt' }, readOnly)).structured.content).toBe('inside');
    const written = await call('write_file', { path: 'inside.txt', content: 'x' }, readOnly);
    expect(written).toMatchObject({
      isError: true,
      text: expect.stringMatching(/the sandbox is read-only, so no file can be written at any path/),
    });
    const edit = { path: 'inside.txt', old_text: 'inside', new_text: 'x' };
    expect((await call('edit_file', edit, readOnly)).text).toBe(written.text);
    const run = await call('exec_command', { cmd: 'echo x > inside.txt', login: false }, readOnly);
    expect(run.structured).toMatchObject({ sandbox_denied: true });
    expect(run.text).toContain('it may not write any file and has no network');
    const offline = { cmd: 'echo "curl: (6) Could not resolve host: x" >&2; exit 6', login: false };
    expect((await call('exec_command', offline, readOnly)).structured).toMatchObject({
      sandbox_denied: true,
    });
    expect(await readFile(join(root, 'inside.txt'), 'utf8')).toBe('inside\n');
  });

  test('that probably stopped a program is named by every tool that reports its end', async () => {
    // The program fails after the call that starts it.
    const fail = async (cmd: string) => {
      const args = { cmd: `read go <gate; ${cmd}`, login: false, yield_time_ms: 250 };
      return (await call('exec_command', args, confined)).structured.process as string;
    };
    await call('exec_command', { cmd: 'mkfifo gate', login: false }, confined);
    const open = () => call('exec_command', { cmd: 'echo go >gate', login: false }, confined);
    const process = await fail('touch /usr/made');
    await open();
    const read = () => call('read_output', { process, cursor: '0' }, confined);
    const waited = await call('wait_process', { process }, confined);
    expect(waited.text).toMatch(/it may write only to \/tmp, .* and has no network/);
    expect(waited.text).toContain(root);
    expect(waited.structured).toMatchObject({ sandbox_denied: true, happened: 'exit' });
    for (const { text, structured } of [
      await read(),
      await call('read_output', { process, tail_lines: 5 }, confined),
      await call('write_stdin', { process, cursor: '0' }, confined),
    ]) {
      expect(text).toContain('The sandbox probably stopped the program');
      expect(structured).toMatchObject({ sandbox_denied: true });
    }
    const refused = await fail('echo "connect ECONNREFUSED 127.0.0.1:8080" >&2; exit 1');
    await open();
    expect((await call('wait_process', { process: refused }, confined)).text).toContain('has no network');
    const silent = { cmd: 'curl() { return 7; }; curl -s http://127.0.0.1:8080', login: false };
    expect((await call('exec_command', silent, confined)).structured).toMatchObject({ sandbox_denied: true });
    expect((await call('exec_command', silent)).structured).not.toHaveProperty('sandbox_denied');
    await rm(join(root, 'gate'));
  });

  test('lets no program be controlled that could do more', async () => {
    const { processes } = bench.client;
    const sleep = async (tools: AgentTools, name: string) => {
      const cmd = { cmd: 'sleep 60', login: false, yield_time_ms: 250, name };
      return (await call('exec_command', cmd, tools)).structured.process as string;
    };
    const [free, limited] = await Promise.all([sleep(bench.tools, 'free'), sleep(confined, 'limited')]);
    expect(await processes.get(free)).toMatchObject({ sandbox: null });
    expect(await processes.get(limited)).toMatchObject({
      sandbox: {
        type: 'workspaceWrite',
        writableRoots: expect.arrayContaining([`file://${root}`, 'file:///tmp']),
        networkAccess: false,
      },
    });
    const refused = { isError: true, structured: { kind: 'permissionDenied' } };
    for (const [name, args] of [
      ['write_stdin', { process: 'free', chars: '\u0003' }],
      ['kill_process', { process: 'free' }],
      ['kill_process', { process: free, signal: 'SIGCONT' }],
    ] as const) {
      const result = await call(name, args, confined);
      expect(result, name).toMatchObject(refused);
      expect(result.text).toContain('because it runs without a sandbox');
    }
    expect(await call('kill_process', { process: limited }, readOnly)).toMatchObject(refused);
    const elsewhere = await bench.another({ sandbox: 'workspace-write', roots: [join(root, 'tree')] });
    expect(await call('kill_process', { process: limited }, elsewhere)).toMatchObject(refused);
    const read = await call('read_output', { process: 'free' }, confined);
    expect(read.isError).toBe(false);
    expect(read.structured.next).toMatch(/a port; it can only be read and waited for from here\.$/);
    expect((await processes.get(free)).state).toBe('running');

    // It could write to .mcp.json.
    const users = await bench.client.backend.start({
      processId: 'of-the-user',
      argv: ['/bin/sleep', '60'],
      cwd: `file://${root}`,
      env: {},
      tty: false,
      lifetime: { type: 'detached' },
      sandbox: { type: 'workspaceWrite', writableRoots: [], networkAccess: false },
    });
    const wider = await call('kill_process', { process: users.ref }, confined);
    expect(wider).toMatchObject(refused);
    expect(wider.text).toContain('allows other things');
    await users.terminate();

    const later = await bench.another({ sandbox: 'workspace-write' });
    expect((await call('kill_process', { process: limited }, later)).structured).toMatchObject({
      ended: true,
    });
    const still = await sleep(readOnly, 'still');
    expect((await call('kill_process', { process: still }, later)).structured).toMatchObject({ ended: true });
    expect((await call('kill_process', { process: free })).structured).toMatchObject({ ended: true });
  });

  test('follows the roots', async () => {
    const tools = await bench.another({ sandbox: 'workspace-write' });
    tools.setRoots([`${root}/tree/`]);
    expect((await call('read_file', { path: 'main.ts' }, tools)).isError).toBe(false);
    expect((await call('read_file', { path: '../inside.txt' }, tools)).text).toContain(
      'outside of the workspace',
    );
    expect(() => tools.setRoots(['relative'])).toThrow('relative');
    expect((await call('exec_command', { cmd: 'pwd', login: false }, tools)).structured.output).toBe(
      `${root}/tree\n`,
    );
  });
});
