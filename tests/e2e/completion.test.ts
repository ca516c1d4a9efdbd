import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ExecServerClient } from '../../src/client/index.ts';
import { endPrivateServer } from '../support/private-server.ts';
import { HAS_TMUX, TmuxTerminal } from '../support/tmux.ts';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

const folder = mkdtempSync(join(tmpdir(), 'completion-'));
symlinkSync(BIN, join(folder, 'exec-server'));
mkdirSync(join(folder, 'work', 'directory'), { recursive: true });
writeFileSync(join(folder, 'work', 'certificate.pem'), '');

const runtime = join(folder, 'run');
mkdirSync(runtime, { mode: 0o700 });
afterAll(async () => {
  await endPrivateServer(runtime);
  rmSync(folder, { recursive: true });
});
const env = {
  XDG_RUNTIME_DIR: runtime,
  PATH: `${folder}:${process.env.PATH}`,
  HOME: folder,
  TERM: 'dumb',
  LC_ALL: 'C.UTF-8',
};

function run(shell: string, script: string): string {
  const { stdout, stderr, status } = spawnSync(shell, ['-c', script], {
    cwd: join(folder, 'work'),
    env,
    encoding: 'utf8',
    timeout: 30_000,
  });
  if (status !== 0) throw new Error(`${shell}: ${stderr}`);
  return stdout;
}

/** Calls the function of the script as readline does: words also end at = and :. */
function bash(line: string): string[] {
  const words = line.split(/ |(?<=[=:])|(?=[=:])/);
  const script = `
    eval "$(exec-server completion bash)"
    compopt() { :; }
    COMP_LINE='${line}' COMP_POINT=${line.length} COMP_CWORD=${words.length - 1}
    COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})
    _exec_server
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  return run('bash', script).trim().split('\n').sort();
}

/** fish lists the candidates of a command line. */
function fish(line: string): string[] {
  const script = `exec-server completion fish | source; complete -C '${line}'`;
  return run('fish', script)
    .trim()
    .split('\n')
    .map((candidate) => candidate.split('\t')[0]!)
    .sort();
}

/** Types the line and a tab in an interactive zsh, and returns the line as zsh has completed it. */
function zsh(line: string): string {
  writeFileSync(
    join(folder, 'rc'),
    `autoload -Uz compinit && compinit -u -D; eval "$(exec-server completion zsh)"
     PS1=; unsetopt zle_bracketed_paste 2>/dev/null; show() { print -r -- "<$BUFFER>"; zle kill-whole-line; }
     zle -N show; bindkey '^X' show; print ready`,
  );
  const script = `
    zmodload zsh/zpty
    zpty shell 'zsh -f -i'
    zpty -w shell ' source ${join(folder, 'rc')}'
    zpty -r shell output '*ready*' || exit 1
    zpty -w -n shell $'${line}\\t\\x18'
    zpty -r shell output '*<*>*' || exit 1
    print -r -- "$output"
    zpty -d shell`;
  return /<([^>]*)>/.exec(run('zsh', script))?.[1] ?? '';
}

const missing = (shell: string) => spawnSync(shell, ['--version']).error !== undefined;

describe.skipIf(missing('bash'))('bash', () => {
  test.each<[string, string[]]>([
    ['exec-server tok', ['token']],
    ['exec-server serve --tls-c', ['--tls-cert', '--tls-client-ca']],
    ['exec-server serve --ws-auth c', ['capability-token']],
    ['exec-server serve --ws-auth=', ['capability-token', 'none', 'signed-bearer-token']],
    ['exec-server serve --ws-auth=c', ['capability-token']],
    ['exec-server serve --tls-cert ', ['certificate.pem', 'directory']],
    ['exec-server serve --tls-cert=cert', ['certificate.pem']],
    ['exec-server token signed --path ', ['directory']],
    ['exec-server cp cert', ['certificate.pem']],
    ['exec-server sync directory loc', ['local:']],
    ['exec-server cp ', ['certificate.pem', 'directory/', 'local:']],
  ])('completes %j', (line, expected) => {
    expect(bash(line)).toEqual(expected);
  });
});

describe.skipIf(missing('fish'))('fish', () => {
  test.each<[string, string[]]>([
    ['exec-server tok', ['token']],
    ['exec-server serve --tls-c', ['--tls-cert', '--tls-client-ca']],
    ['exec-server serve --ws-auth c', ['capability-token']],
    ['exec-server serve --ws-auth=c', ['--ws-auth=capability-token']],
    ['exec-server serve --tls-cert cert', ['certificate.pem']],
    ['exec-server serve --tls-cert=cert', ['--tls-cert=certificate.pem']],
    ['exec-server token signed --path ', ['directory/']],
    ['exec-server cp cert', ['certificate.pem']],
    ['exec-server sync directory loc', ['local:']],
  ])('completes %j', (line, expected) => {
    expect(fish(line)).toEqual(expected);
  });
});

describe.skipIf(missing('zsh'))('zsh', () => {
  test.each([
    ['exec-server tok', 'exec-server token '],
    ['exec-server serve --ws-auth cap', 'exec-server serve --ws-auth capability-token '],
    ['exec-server serve --ws-auth=cap', 'exec-server serve --ws-auth=capability-token '],
    ['exec-server serve --tls-cert cert', 'exec-server serve --tls-cert certificate.pem '],
    ['exec-server serve --tls-cert=cert', 'exec-server serve --tls-cert=certificate.pem '],
    ['exec-server token signed --path d', 'exec-server token signed --path directory/'],
    ['exec-server cp cert', 'exec-server cp certificate.pem '],
    ['exec-server sync directory loc', 'exec-server sync directory local:'],
  ])('completes %j to %j', (line, expected) => {
    expect(zsh(line)).toBe(expected);
  });
});

describe('processes', () => {
  let ref: string;
  beforeAll(async () => {
    // Completion starts no server.
    expect(run('bash', 'exec-server __complete -- kill ""')).toBe('none\n');
    expect(existsSync(join(runtime, 'exec-server', 'server.json'))).toBe(false);
    run('bash', 'exec-server ps');
    const client = await ExecServerClient.connect({
      url: `unix://${join(runtime, 'exec-server/server.sock')}`,
    });
    ref = (await client.spawn('sleep 60', { detached: true, name: 'web-server' })).ref!;
    const done = await client.spawn('exit 3', { detached: true, name: 'web-build', record: true });
    await done.wait();
    await client.close();
    run('bash', 'exec-server env add machine ws://127.0.0.1:1');
  });

  test('are completed by name and reference, as far as the command takes them', () => {
    const lines = run('bash', 'exec-server __complete -- logs ""').trim().split('\n');
    expect(lines.slice(1).map((line) => line.split('\t')[0])).toEqual([
      ...['web-server', ref, 'web-build', expect.stringMatching(/^[0-9a-z]{8,}$/)],
    ]);
    expect(lines).toContain(`web-build\texited 3: ${lines[3]!.split(': ')[1]}`);
    expect(run('bash', 'exec-server __complete -- kill web')).toMatch(/^none\nweb-server\trunning: .*\n$/);
    expect(run('bash', 'exec-server __complete -- rm web')).toMatch(/^none\nweb-build\t.*\n$/);
    // A server that is away has none.
    expect(run('bash', 'exec-server __complete -- logs -E machine ""')).toBe('none\n');
    expect(run('bash', 'exec-server __complete -- logs -E ssh://127.0.0.1 ""')).toBe('none\n');
  });

  test.skipIf(missing('bash'))('in bash', () => {
    expect(bash('exec-server logs web-')).toEqual(['web-build', 'web-server']);
    expect(bash('exec-server kill -s TERM web')).toEqual(['web-server']);
    expect(bash('exec-server ps -E mach')).toEqual(['machine']);
    expect(bash('exec-server ps --environment=mach')).toEqual(['machine']);
    expect(bash('exec-server play web-')).toEqual(['web-build']);
    expect(bash('exec-server export cert')).toEqual(['certificate.pem']);
  });

  test.skipIf(missing('bash') || !HAS_TMUX)('with a Tab in an interactive bash', async () => {
    const tmux = new TmuxTerminal(join(folder, 'work'), { ...env, TERM: 'screen', PS1: '% ' });
    onTestFinished(() => tmux.close());
    tmux.line('exec bash --norc --noprofile -i');
    tmux.line(`PS1='$ '; eval "$(exec-server completion bash)"; clear; echo ready-$((1+1))`);
    await tmux.shows(/^ready-2\n\$$/);
    for (const [typed, completed] of [
      ['exec-server tok', /^\$ exec-server token$/m],
      ['exec-server kill web-s', /^\$ exec-server kill web-server$/m],
      ['exec-server ps -E mach', /^\$ exec-server ps -E machine$/m],
      ['exec-server serve --ws-auth=cap', /^\$ exec-server serve --ws-auth=capability-token$/m],
    ] as const) {
      tmux.type(typed);
      tmux.keys('Tab');
      await tmux.shows(completed);
      tmux.keys('C-u');
    }
    // Two candidates are listed at the second Tab.
    tmux.type('exec-server logs web-');
    tmux.keys('Tab', 'Tab');
    await tmux.shows(/^web-build +web-server *$/m);
  });

  test.skipIf(missing('fish'))('in fish', () => {
    expect(fish('exec-server logs web-')).toEqual(['web-build', 'web-server']);
    expect(fish('exec-server ps -E mach')).toEqual(['machine']);
    expect(fish('exec-server play web-')).toEqual(['web-build']);
  });

  test.skipIf(missing('zsh'))('in zsh', () => {
    expect(zsh('exec-server kill web')).toBe('exec-server kill web-server ');
    expect(zsh(`exec-server wait ${ref.slice(0, -1)}`)).toBe(`exec-server wait ${ref} `);
    expect(zsh('exec-server ps -E mach')).toBe('exec-server ps -E machine ');
    expect(zsh('exec-server export --txt web')).toBe('exec-server export --txt web-build ');
  });
});
