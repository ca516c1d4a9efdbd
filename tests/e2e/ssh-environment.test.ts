import type { ChildProcess } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ConsoleBrowser, outputThrough } from '../support/console-browser.ts';
import { onFreePort } from '../support/free-port.ts';
import { answerOf, startForward } from '../support/port-forward.ts';
import { CommandUser } from '../support/private-server.ts';
import { createSshKeys, spawnSshd, sshMissing } from '../support/sshd.mjs';
import { echoPeer } from '../support/tcp-peers.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, firstLine } from '../unit/cli/run-cli.ts';

describe.skipIf(sshMissing() !== null)('an ssh environment', () => {
  const here = new CommandUser();
  /** The user at the other end of ssh, which is this machine with another home. */
  const there = new CommandUser();
  const at = (name: string) => join(here.workspace.path, name);
  let sshd: ChildProcess;
  let port: number;

  beforeAll(async () => {
    createSshKeys(here.workspace.path);
    const bin = join(there.workspace.path, 'bin');
    mkdirSync(bin);
    symlinkSync(CLI, join(bin, 'exec-server'));
    const variables = `PATH=${bin}:${process.env.PATH} HOME=${there.workspace.path} XDG_RUNTIME_DIR=${there.runtime}`;
    // ssh reads the configuration of the user in the password file, not of $HOME.
    writeFileSync(
      at('ssh'),
      `#!/bin/sh
exec /usr/bin/ssh -o IdentityFile=${at('user')} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"
`,
    );
    chmodSync(at('ssh'), 0o755);
    sshd = await onFreePort(async (free) => {
      port = free;
      const child = spawnSshd(here.workspace.path, port, [`SetEnv ${variables}`]);
      let log = '';
      child.stderr.on('data', (text) => {
        log += text;
      });
      await waitFor('sshd', () => log.includes('Server listening') || child.exitCode !== null);
      if (child.exitCode !== null) throw new Error(log);
      return child;
    });
  });

  afterAll(async () => {
    sshd?.kill();
    await here.close();
    await there.close();
  });

  const run = (...args: string[]) => here.run(args, { PATH: `${here.workspace.path}:${process.env.PATH}` });

  test('is shown by the console', async () => {
    const url = `ssh://${userInfo().username}@127.0.0.1:${port}`;
    const env = { PATH: `${here.workspace.path}:${process.env.PATH}` };
    const console = here.start(['console', '--no-open', '-E', url], env);
    const browser = await ConsoleBrowser.open(await firstLine(console));
    expect(await outputThrough(browser, ['sh', '-c', 'echo "$XDG_RUNTIME_DIR"'])).toBe(`${there.runtime}\n`);
    console.child.kill('SIGINT');
    expect(await console.outcome).toMatchObject({ code: 0, stderr: '' });
  });

  test('uses the private server of the other machine', async () => {
    const url = `ssh://${userInfo().username}@127.0.0.1:${port}`;
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
    const url = `ssh://${userInfo().username}@127.0.0.1:${port}`;
    const { child, outcome } = here.start(['run', '-E', url, '--', 'sh', '-c', script], {
      PATH: `${here.workspace.path}:${process.env.PATH}`,
    });
    let stdout = '';
    child.stdout.on('data', (text) => {
      stdout += text;
    });
    await waitFor('the first line', () => stdout === 'one\n');
    const pid = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim();
    process.kill(Number(pid), 'SIGKILL');
    writeFileSync(file, '');
    expect(await outcome).toMatchObject({ code: 7, stdout: 'one\ntwo\n/\n' });
  });

  test('forwards ports through it', async () => {
    const peer = await echoPeer();
    const url = `ssh://${userInfo().username}@127.0.0.1:${port}`;
    const forward = await startForward(here, ['-E', url, `0:${peer.port}`], {
      env: { PATH: `${here.workspace.path}:${process.env.PATH}` },
    });
    expect(await answerOf(forward.ports[0]!, 'over ssh')).toBe('over ssh');
    expect(await forward.stop()).toBe(0);
  });

  test('copies files through it', async () => {
    const url = `ssh://${userInfo().username}@127.0.0.1:${port}`;
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
      expect.stringMatching(/^exec-server: ssh has failed \(exit code 255\): .*Connection refused\n$/),
    ]);
    const denied = await run('env', 'test', `ssh://no-such-user@127.0.0.1:${port}`);
    expect([denied.code, denied.stderr]).toEqual([125, expect.stringMatching(/Permission denied/)]);
    unlinkSync(join(there.workspace.path, 'bin', 'exec-server'));
    const missing = await run('env', 'test', `ssh://${userInfo().username}@127.0.0.1:${port}`);
    expect([missing.code, missing.stderr]).toEqual([
      125,
      expect.stringMatching(/found no exec-server there; install it/),
    ]);
  });
});
