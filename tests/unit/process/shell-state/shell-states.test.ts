import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import type { EnvPolicy } from '../../../../src/process/env-policy.ts';
import { type ProgramRequest, spawnSpecOf } from '../../../../src/process/program-request.ts';
import { MAX_STATES } from '../../../../src/process/shell-state/limits.ts';
import { loginCommandOf, type ShellKind } from '../../../../src/process/shell-state/login-command.ts';
import { ShellStates } from '../../../../src/process/shell-state/shell-states.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { NodeSpawner } from '../../../../src/process/spawn/node-spawner.ts';
import { type ChildIo, SpawnError, type Spawner } from '../../../../src/process/spawn/spawner.ts';
import { childPids, openDescriptors, run } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

const PATHS = { bash: '/bin/bash', zsh: '/bin/zsh', sh: '/bin/sh' } as const;
const PROFILES = { bash: '.bash_profile', zsh: '.zprofile', sh: '.profile' } as const;
const PIPE: ChildIo = { kind: 'pipe', stdin: 'closed' };
const ALL: EnvPolicy = {
  inherit: 'none',
  ignoreDefaultExcludes: false,
  exclude: [],
  set: {},
  includeOnly: [],
};
const shells = (['bash', 'zsh', 'sh'] as const).filter((kind) => {
  if (existsSync(PATHS[kind])) return true;
  process.stderr.write(`\n${PATHS[kind]} IS MISSING: its shell state is not tested\n`);
  return false;
});

describe.each(['native', 'node'] as const)('with the %s spawner', (name) => {
  let spawner: Spawner;
  let home: string;
  let descriptors: number;
  let states: ShellStates;

  beforeAll(async () => {
    spawner = name === 'native' ? new NativeSpawner(loadLibc()) : new NodeSpawner('no terminals here');
    await run(spawner, { program: '/bin/true', argv: ['true'], cwd: '/', env: {}, io: PIPE });
    descriptors = openDescriptors();
  });

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'shell-state-'));
    states = new ShellStates(spawner);
  });

  afterEach(async () => {
    rmSync(home, { recursive: true });
    await waitFor('the descriptors of the capture are closed', () => openDescriptors() === descriptors);
  });

  afterAll(async () => {
    await spawner.close();
    expect(childPids()).toEqual([]);
  });

  const profile = (kind: ShellKind, text: string) =>
    writeFileSync(join(home, PROFILES[kind]), `echo login >> "$HOME/logins"\n${text}\n`);
  const logins = () => readFileSync(join(home, 'logins'), 'utf8').split('\n').length - 1;

  function command(kind: ShellKind, script: string, more: Partial<ProgramRequest> & { scope?: string } = {}) {
    const { scope = 's', ...options } = more;
    const program: ProgramRequest = {
      argv: [PATHS[kind], '-lc', script],
      arg0: null,
      env: { HOME: home, PATH: '/usr/bin:/bin' },
      io: PIPE,
      envPolicy: null,
      metadata: null,
      ...options,
    };
    const login = loginCommandOf(program, { scopeId: scope, shell: { name: kind, path: PATHS[kind] } });
    return { login: login!, spec: spawnSpecOf(program, home) };
  }

  async function restored(...args: Parameters<typeof command>) {
    const { login, spec } = command(...args);
    const context = { spec, sandbox: null, wrapInSandbox: null };
    return states.restored(login, context, new AbortController().signal);
  }

  const stdout = async (...args: Parameters<typeof command>) => {
    const { stdout: text, stderr } = await run(spawner, await restored(...args));
    expect(stderr).toBe('');
    return text;
  };

  describe.each(shells)('%s', (kind) => {
    test("reads the user's files once; variables, options and aliases stay", async () => {
      profile(
        kind,
        `echo noise; echo noise >&2; export FROM="a b
c"; alias greet="echo it\\'s"; set -C; ${kind === 'bash' ? 'shopt -s expand_aliases' : ''}`,
      );
      const script = 'echo "$FROM"\ngreet me\ncase $(set -o) in *noclobber*on*) echo on;; esac';
      expect(await stdout(kind, script)).toBe("a b\nc\nit's me\non\n");
      expect(await stdout(kind, script)).toBe("a b\nc\nit's me\non\n");
      expect(logins()).toBe(1);
    });

    test('keeps arguments, argv[0], the exit code and the script unchanged', async () => {
      profile(kind, 'export X=1');
      const script = `printf '%s|' "$0" "$@" 'it'"'"'s' "\\$X" \`echo b\`; exit 7`;
      const argv = [PATHS[kind], '-lc', script, 'zero', 'one two', ''];
      const spec = await restored(kind, script, { argv });
      expect(await run(spawner, spec)).toMatchObject({
        stdout: "zero|one two||it's|$X|b|",
        status: { code: 7 },
      });
      expect((await restored(kind, 'true', { arg0: 'named' })).argv[0]).toBe('named');
    });

    test('leaves no trace of how the state was passed: no variable, no descriptor', async () => {
      profile(kind, 'export X=1; f() { :; }');
      const open = await stdout(kind, 'env; ls /proc/self/fd | wc -l');
      const plain = await run(spawner, command(kind, 'ls /proc/self/fd | wc -l').spec);
      expect(open.split('\n').at(-2)).toBe(plain.stdout.split('\n').at(-2));
      expect(open).not.toMatch(/STATE/);
      expect(open).toContain('X=1\n');
    });

    test("prefers the request's variables, and does not pass on those of the first command", async () => {
      profile(kind, 'export A=profile B=profile; export C="$C"');
      const env = { HOME: home, PATH: '/usr/bin:/bin' };
      await stdout(kind, 'true', { env: { ...env, A: 'mine', C: 'first only' } });
      expect(await stdout(kind, 'echo "$A|$B|$C"', { env })).toBe('profile|profile|\n');
      expect(await stdout(kind, 'echo "$A|$B|$C"', { env: { ...env, B: 'mine' } })).toBe('profile|mine|\n');
    });

    test('filters exported variables by the policy and drops per-run variables', async () => {
      profile(kind, 'export GOOD=1 MY_TOKEN=2 OUT=3 LD_X=4; cd /');
      const envPolicy = { ...ALL, exclude: ['OUT'], set: { HOME: home, PATH: '/usr/bin:/bin' } };
      const text = await stdout(kind, 'env; pwd', { envPolicy, env: {} });
      expect(text).toContain('GOOD=1\n');
      expect(text).toContain('LD_X=4\n');
      expect(text).not.toMatch(/MY_TOKEN|OUT=/);
      expect(text.endsWith(`${home}\n`)).toBe(true);
      expect((await restored(kind, 'x', { envPolicy, env: {} })).env).not.toHaveProperty('PWD');
    });

    test('does not pass identifiers of one command to the next', async () => {
      profile(kind, ':');
      const metadata = { threadId: '01a1e090955e7052ad4af0b671974ec2', toolCallId: 'first' };
      const script = 'echo "$CODEX_THREAD_ID|$CODEX_TOOL_CALL_ID"';
      expect(await stdout(kind, script, { metadata })).toBe('01a1e090-955e-7052-ad4a-f0b671974ec2|first\n');
      expect(await stdout(kind, script)).toBe('|\n');
    });

    test('tries a failing shell once and runs its commands unchanged', async () => {
      profile(kind, '');
      appendFileSync(join(home, PROFILES[kind]), 'exit 3\n');
      for (const scope of ['s', 's', 's']) {
        const spec = await restored(kind, 'echo no', { scope });
        expect(spec.argv).toEqual([PATHS[kind], '-lc', 'echo no']);
      }
      expect(logins()).toBe(1);
    });
  });

  test('bash: restores functions, exported functions, shell options, traps and errexit', async () => {
    profile(
      'bash',
      `shopt -s extglob
       f() { case $1 in @(a|b)) echo "f  $1";; esac; }; g() { echo g; }; export -f g
       trap 'echo trapped' DEBUG ERR; set -eu -o pipefail`,
    );
    const script = 'f a; bash -c g; shopt -q extglob && echo "$-" | tr -cd eu; false; echo never';
    const { stdout: text, status } = await run(spawner, await restored('bash', script));
    expect([text, status.code]).toEqual(['f  a\ng\neu', 1]);
  });

  test.each(shells.filter((kind) => kind !== 'sh'))(
    '%s: restores functions with names of commands without calling them early',
    async (kind) => {
      const names = [
        'set',
        'alias',
        'eval',
        'unset',
        'exec',
        'printf',
        ...(kind === 'zsh' ? ['setopt'] : []),
      ];
      const functions = names.map((name) => `${name}() { echo "my ${name} $1"; }`).join('\n');
      profile(
        kind,
        `alias greet="echo hello"\n${kind === 'bash' ? 'shopt -s expand_aliases' : ''}\n${functions}`,
      );
      expect(await stdout(kind, `${names.map((name) => `${name} x\n`).join('')}greet\n`)).toBe(
        `${names.map((name) => `my ${name} x\n`).join('')}hello\n`,
      );
      expect(logins()).toBe(1);
    },
  );

  test.each(shells.filter((kind) => kind !== 'sh'))(
    '%s: aliases do not change earlier functions',
    async (kind) => {
      const expansion = kind === 'bash' ? 'shopt -s expand_aliases\n' : '';
      profile(kind, `f() { pwd; }\n${expansion}alias pwd="echo aliased" f2="echo two"`);
      expect(await stdout(kind, 'f\npwd\nf2')).toBe(`${home}\naliased\ntwo\n`);
      expect(logins()).toBe(1);
    },
  );

  test.skipIf(!shells.includes('zsh'))('zsh: exporting everything exports nothing of its own', async () => {
    profile('zsh', 'setopt allexport; MINE=1');
    expect(await stdout('zsh', 'env | grep -c ^FPATH; env | grep ^MINE')).toBe('0\nMINE=1\n');
    expect(logins()).toBe(1);
  });

  test('bash: reads the file for interactive shells, which may return early', async () => {
    profile('bash', 'export P=1');
    writeFileSync(join(home, '.bashrc'), 'export RC=1; return 0; export NOT=1\n');
    expect(await stdout('bash', 'echo "$P$RC$NOT"')).toBe('11\n');
  });

  test.skipIf(!shells.includes('zsh'))(
    'zsh: restores functions, global aliases, options and the function path',
    async () => {
      profile('zsh', 'setopt extendedglob; fpath=(/nowhere $fpath); autoload -Uz later');
      writeFileSync(
        join(home, '.zshrc'),
        `zf() { echo "zf $1" }; alias -g UP="| tr a-z A-Z"; setopt noclobber\n`,
      );
      const script =
        'zf it UP; echo $fpath[1]; [[ -o extendedglob && -o noclobber && ! -o login ]] && echo set; whence -w later';
      expect(await stdout('zsh', script)).toBe('ZF IT\n/nowhere\nset\nlater: function\n');
    },
  );

  test('sh: reads the file that ENV names, and omits ambiguous aliases', async () => {
    profile(
      'sh',
      `export ENV="$HOME/env"; alias two="a
b'c"`,
    );
    writeFileSync(join(home, 'env'), 'export RC=1\n');
    expect(await stdout('sh', 'echo "$RC"')).toBe('1\n');
  });

  test('ignores any amount of noise and text that looks like a delimiter', async () => {
    profile('bash', `head -c 3000000 /dev/zero; printf '\\0mark\\0'; export P=1`);
    expect(await stdout('bash', 'echo $P')).toBe('1\n');
  });

  test('omits a variable that is not UTF-8', async () => {
    profile('bash', `export BAD=$'\\xff' GOOD=1`);
    expect(await stdout('bash', 'echo "$BAD|$GOOD"')).toBe('|1\n');
  });

  test("makes no state when variables exceed the kernel's limit", async () => {
    profile('bash', `export BIG="$(head -c 140000 /dev/zero | tr '\\0' x)"; unset BIG2`);
    expect((await restored('bash', 'true')).argv[1]).toBe('-lc');
  });

  test('shares one login between concurrent commands', async () => {
    profile('bash', 'sleep 0.2; export P=1');
    const texts = await Promise.all(Array.from({ length: 5 }, () => stdout('bash', 'echo $P')));
    expect(texts).toEqual(Array(5).fill('1\n'));
    expect(logins()).toBe(1);
  });

  test('uses another state for another scope, directory, policy or sandbox', async () => {
    profile('bash', ':');
    const { login, spec } = command('bash', 'true');
    const signal = new AbortController().signal;
    const context = { spec, sandbox: null, wrapInSandbox: null };
    await states.restored(login, context, signal);
    await states.restored({ ...login, scopeId: 'other' }, context, signal);
    await states.restored(login, { ...context, spec: { ...spec, cwd: '/' } }, signal);
    await states.restored(login, { ...context, sandbox: { type: 'readOnly' } }, signal);
    const policy = { ...ALL, set: { HOME: home, PATH: '/usr/bin:/bin' } };
    await states.restored({ ...login, program: { ...login.program, envPolicy: policy } }, context, signal);
    expect(logins()).toBe(5);
    await states.restored(login, context, signal);
    expect(logins()).toBe(5);
  });

  test('evicts the least recently used state', async () => {
    profile('bash', ':');
    for (let index = 0; index < MAX_STATES; index++) await restored('bash', 'true', { scope: `${index}` });
    await restored('bash', 'true', { scope: '0' });
    expect(logins()).toBe(MAX_STATES);
    await restored('bash', 'true', { scope: 'new' });
    await restored('bash', 'true', { scope: '0' });
    expect(logins()).toBe(MAX_STATES + 1);
    await restored('bash', 'true', { scope: '1' });
    expect(logins()).toBe(MAX_STATES + 2);
  });

  test('ends the login shell of a cancelled start, and the next start tries again', async () => {
    profile('bash', 'echo $$ > "$HOME/pid"; sleep 60');
    const giveUp = new AbortController();
    const { login, spec } = command('bash', 'true');
    const context = { spec, sandbox: null, wrapInSandbox: null };
    const waiting = states.restored(login, context, giveUp.signal);
    await waitFor(
      'the login shell',
      () => existsSync(join(home, 'pid')) && readFileSync(join(home, 'pid'), 'utf8') !== '',
    );
    giveUp.abort();
    expect(await waiting).toBe(spec);
    const pid = Number(readFileSync(join(home, 'pid'), 'utf8'));
    expect(existsSync(`/proc/${pid}/exe`)).toBe(false);
    profile('bash', 'export P=2');
    expect(await stdout('bash', 'echo $P')).toBe('2\n');
  });

  test('continues the login shell while another command waits', async () => {
    profile('bash', 'sleep 0.3; export P=1');
    const giveUp = new AbortController();
    const { login, spec } = command('bash', 'true');
    const waiting = states.restored(login, { spec, sandbox: null, wrapInSandbox: null }, giveUp.signal);
    const other = stdout('bash', 'echo $P');
    giveUp.abort();
    expect(await other).toBe('1\n');
    expect(await waiting).toBe(spec);
    expect(logins()).toBe(1);
  });

  test('does not remember a missing shell or directory as a failure', async () => {
    profile('bash', 'export P=1');
    const { login, spec } = command('bash', 'echo $P');
    const context = { spec: { ...spec, cwd: join(home, 'later') }, sandbox: null, wrapInSandbox: null };
    const { signal } = new AbortController();
    const unchanged = await states.restored(login, context, signal);
    await expect(run(spawner, unchanged)).rejects.toThrow(SpawnError);
    (await import('node:fs')).mkdirSync(join(home, 'later'));
    expect((await run(spawner, await states.restored(login, context, signal))).stdout).toBe('1\n');
  });

  test("is not delayed by processes that the user's files leave running, which survive", async () => {
    profile('bash', 'sleep 60 & echo $! > "$HOME/pid"; export P=1');
    expect(await stdout('bash', 'echo $P')).toBe('1\n');
    const pid = Number(readFileSync(join(home, 'pid'), 'utf8'));
    expect(existsSync(`/proc/${pid}/exe`)).toBe(true);
    process.kill(pid, 'SIGKILL');
  });

  test('sandboxes the capture and the command alike, and releases each sandbox', async () => {
    profile('bash', 'export P="$INSIDE"');
    const released: string[] = [];
    const { login, spec } = command('bash', 'echo $P');
    const wrapInSandbox = async (inner: typeof spec) => ({
      spec: { ...inner, env: { ...inner.env, INSIDE: 'yes' } },
      denialDetector: null,
      release: async () => void released.push(inner.argv[1]!),
    });
    const context = { spec, sandbox: 'c', wrapInSandbox };
    const inside = await states.restored(login, context, new AbortController().signal);
    expect((await run(spawner, (await wrapInSandbox(inside)).spec)).stdout).toBe('yes\n');
    expect(released).toEqual(['-lc']);
  });
});

describe('loginCommandOf', () => {
  const program: ProgramRequest = {
    argv: ['/bin/bash', '-lc', 'x'],
    arg0: null,
    env: {},
    io: PIPE,
    envPolicy: null,
    metadata: null,
  };
  const of = (argv: string[], name = 'bash', scopeId = 's') =>
    loginCommandOf({ ...program, argv }, { scopeId, shell: { name, path: '/bin/bash' } });

  test('accepts commands with the shell, -lc and a script', () => {
    expect(of(['/bin/bash', '-lc', 'x', 'more'])).toMatchObject({ kind: 'bash', scopeId: 's' });
    for (const argv of [['/bin/bash', '-lc'], ['/bin/bash', '-c', 'x'], ['bash', '-lc', 'x'], []]) {
      expect(of(argv)).toBeNull();
    }
    expect(loginCommandOf(program, null)).toBeNull();
  });

  test('limits a scope to 1 to 256 bytes for every command, and rejects other shells only for login commands', () => {
    expect(of(['/bin/bash', '-lc', 'x'], 'bash', 'é'.repeat(128))).not.toBeNull();
    for (const scope of ['', `${'é'.repeat(128)}x`]) {
      expect(() => of(['/bin/true'], 'bash', scope)).toThrow('must be non-empty and at most 256 bytes');
    }
    expect(() => of(['/bin/bash', '-lc', 'x'], 'fish')).toThrow('unsupported for shell `fish`');
    expect(of(['/bin/true'], 'fish')).toBeNull();
  });
});
