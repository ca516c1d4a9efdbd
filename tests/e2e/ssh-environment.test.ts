import { readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { TcpProxy } from '../../src/testing/index.ts';
import { ConsoleBrowser, outputThrough } from '../support/console-browser.ts';
import { CommandUser } from '../support/private-server.ts';
import { SshMachine } from '../support/ssh-machine.ts';
import { sshMissing } from '../support/sshd.mjs';
import { waitFor } from '../support/wait-for.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

// command-transports.test.ts runs every command over ssh.
describe.skipIf(sshMissing() !== null)('an ssh environment', () => {
  const here = new CommandUser();
  const at = (name: string) => join(here.workspace.path, name);
  let machine: SshMachine;
  let there: CommandUser;
  let url: string;
  let env: Readonly<Record<string, string>>;

  beforeAll(async () => {
    machine = await SshMachine.start(here);
    ({ user: there, url, env } = machine);
  });

  afterAll(async () => {
    await machine?.close();
    await here.close();
  });

  const run = (...args: string[]) => here.run(args, env);

  test('is shown by the console', async () => {
    const console = here.start(['console', '--no-open', '-E', url], env);
    const browser = await ConsoleBrowser.open(await firstLine(console));
    expect(await outputThrough(browser, ['sh', '-c', 'echo "$XDG_RUNTIME_DIR"'])).toBe(`${there.runtime}\n`);
    console.child.kill('SIGINT');
    expect(await console.outcome).toMatchObject({ code: 0, stderr: '' });
  });

  test('uses the private server of the other machine', async () => {
    const { code, stdout, stderr } = await run('env', 'test', '--json', url);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout).address).toBe(url);
    expect(there.serverPid).not.toBeNull();
    expect(here.serverPid).toBeNull();
    // The server is still there after ssh has ended.
    const pid = there.serverPid;
    await run('env', 'add', 'other', url);
    expect(await run('env', 'test', 'other')).toMatchObject({ code: 0 });
    expect(there.serverPid).toBe(pid);
  });

  test('runs programs there, and comes back after ssh was killed', async () => {
    const file = join(there.workspace.path, 'go');
    const script = `echo one; while [ ! -e ${file} ]; do sleep 0.02; done; echo two; pwd; exit 7`;
    const { child, outcome } = here.start(['run', '-E', url, '--', 'sh', '-c', script], env);
    let stdout = '';
    child.stdout.on('data', (text) => {
      stdout += text;
    });
    await waitFor('the first line', () => stdout === 'one\n');
    const pid = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim();
    process.kill(Number(pid), 'SIGKILL');
    writeFileSync(file, '');
    expect(await outcome).toMatchObject({ code: 7, stdout: `one\ntwo\n${there.workspace.path}\n` });
    const elsewhere = await run('run', '-E', url, '-w', '/usr', '--', 'pwd');
    expect(elsewhere).toMatchObject({ code: 0, stdout: '/usr\n', stderr: '' });
  });

  test('replaces an ssh connection that carries nothing any more', async () => {
    const { port } = new URL(url);
    const proxy = await TcpProxy.open(`ws://127.0.0.1:${port}`);
    onTestFinished(() => proxy.close());
    const file = join(there.workspace.path, 'silent');
    const script = `echo one; while [ ! -e ${file} ]; do sleep 0.02; done; echo two; exit 7`;
    const through = url.replace(`:${port}`, `:${new URL(proxy.url).port}`);
    const { child, outcome } = here.start(['run', '-E', through, '--', 'sh', '-c', script], env);
    let stdout = '';
    child.stdout.on('data', (text) => {
      stdout += text;
    });
    await waitFor('the first line', () => stdout === 'one\n');
    proxy.setStalled(true);
    writeFileSync(file, '');
    expect(await outcome).toMatchObject({ code: 7, stdout: 'one\ntwo\n' });
  });

  test('copies files through it', async () => {
    writeFileSync(at('file'), 'over ssh', { mode: 0o600 });
    expect(await run('cp', at('file'), `${url}:copied`)).toMatchObject({ code: 0, stderr: '' });
    // A relative path is in the home directory there.
    expect(readFileSync(join(there.workspace.path, 'copied'), 'utf8')).toBe('over ssh');
    expect(await run('cp', `${url}:copied`, at('back'))).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(at('back'), 'utf8')).toBe('over ssh');
  });

  test('reports what ssh says', async () => {
    const refused = await run('env', 'test', 'ssh://127.0.0.1:1');
    expect([refused.code, refused.stderr]).toEqual([
      125,
      expect.stringMatching(
        /^exec-server: ssh has failed \(exit code 255\): .*Connection refused; try 'ssh -p 1 127.0.0.1 exec-server version'\n$/,
      ),
    ]);
    const denied = await run('env', 'test', url.replace(/\/\/.*@/, '//no-such-user@'));
    expect([denied.code, denied.stderr]).toEqual([125, expect.stringMatching(/Permission denied/)]);
    unlinkSync(join(there.workspace.path, 'bin', 'exec-server'));
    const missing = await run('env', 'test', url);
    expect([missing.code, missing.stderr]).toEqual([
      125,
      expect.stringMatching(/found no exec-server there; install it/),
    ]);
  });
});
