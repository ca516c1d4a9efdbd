import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { SANDBOXED_START_ATTEMPTS } from '../../../../src/process/limits.ts';
import { ProcessManager } from '../../../../src/process/process-manager.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { type ChildIo, SpawnError, type SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { discardChild, startProgram } from '../../../../src/process/start-program.ts';
import { Bwrap } from '../../../../src/sandbox/linux/bwrap.ts';
import { BUILD_DEADLINE_MS, UNVERIFIED_START_MS } from '../../../../src/sandbox/linux/limits.ts';
import { LinuxSandboxBuilder } from '../../../../src/sandbox/linux/sandbox-builder.ts';
import { childPids, NO_INPUT, openDescriptors, shell, TERMINAL } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { removedAreClosed, workspacePolicy } from './sandboxed-programs.ts';

const REFUSAL =
  'exec-server: files of the sandbox policy were replaced while the sandbox was built; start again\n';
const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
const spawner = new NativeSpawner(loadLibc());
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'restart-')));
const trap = join(folder, 'trap');
const calls = join(folder, 'calls');

/**
 * A bwrap that runs the trap script before its work, so between the plan and the mounts. When the arguments arrive, the plan is made.
 */
const BWRAP = `#!/bin/sh
echo . >> ${calls}
if [ "$1" = --args ]; then
  cat <&"$2" > ${folder}/arguments
  eval "exec $2< ${folder}/arguments"
fi
[ ! -e ${trap} ] || . ${trap}
exec /usr/bin/bwrap "$@"
`;

mkdirSync(join(folder, 'bin'), { mode: 0o755 });
writeFileSync(join(folder, 'bin', 'bwrap'), BWRAP, { mode: 0o755 });
const builder = new LinuxSandboxBuilder(
  spawner.sandboxCalls,
  new Bwrap(spawner, join(folder, 'bin'), architecture),
  architecture,
);

let workspace: string;
let descriptors: number;
let manager: ProcessManager;
let events: string[];
let output: string;
let processId: string;
/** Further entries of the policy. */
let more: Parameters<typeof workspacePolicy>[1];

beforeEach(async () => {
  workspace = mkdtempSync(join(folder, 'ws-'));
  more = {};
  mkdirSync(join(workspace, '.git'));
  manager = new ProcessManager(spawner, { maxProcesses: 4, closedRetentionMs: 1_000 });
  // The first start also starts the watchdog and probes bwrap.
  await start(shell('true'));
  await closed();
  await removedAreClosed();
  descriptors = openDescriptors();
  writeFileSync(calls, '');
});

afterEach(async () => {
  rmSync(trap, { force: true });
  await manager.close();
  await waitFor('every descriptor to be closed', () => openDescriptors() === descriptors);
  rmSync(workspace, { recursive: true });
});

afterAll(async () => {
  await builder.close();
  await spawner.close();
  rmSync(folder, { recursive: true });
  expect(childPids()).toEqual([]);
});

const attempts = () => readFileSync(calls, 'latin1').length / 2;
const closed = () => waitFor('the end of the program', () => events.at(-1) === 'closed');

async function start(spec: SpawnSpec): Promise<void> {
  events = [];
  output = '';
  processId = `p${performance.now()}`;
  const policy = workspacePolicy(workspace, more);
  await manager.start({
    processId,
    spec: spec.cwd.startsWith(workspace) ? spec : { ...spec, cwd: workspace },
    retention: { headBytes: 0, tailBytes: 10_000, maxChunks: 100 },
    listener: {
      output: (seq, stream, bytes) => {
        output += bytes.toString();
        events.push(`${seq} ${stream}`);
      },
      exited: (seq, exitCode) => events.push(`${seq} exited ${exitCode}`),
      closed: () => events.push('closed'),
    },
    wrapInSandbox: (inner, signal) => builder.wrapProgram(inner, policy, 'restricted', signal),
  });
}

/** A shell script that replaces a directory before it is mounted. */
const replaceGit = () => `mv ${workspace}/.git ${workspace}/was-$$ && mkdir ${workspace}/.git`;
const once = (script: string) => `rm ${trap}; ${script}`;

describe('a program whose files are replaced while its sandbox is built', () => {
  test.each<[string, ChildIo, string]>([
    ['pipes', NO_INPUT, 'stdout'],
    ['a terminal', TERMINAL, 'pty'],
  ])('is started again on %s, without output of the first attempt', async (_on, io, stream) => {
    writeFileSync(trap, once(replaceGit()));
    await start(shell('echo fine; echo no >> .git/config', io));
    await closed();
    expect(attempts()).toBe(2);
    expect(output).toMatch(/^fine\r?\n.*Read-only file system\r?\n$/);
    expect(events.at(0)).toBe(`1 ${stream}`);
    expect(events.filter((event) => event.includes('exited'))).toHaveLength(1);
    expect(readdirSync(join(workspace, '.git'))).toEqual([]);
  });

  test('is started again when bwrap does not find the files', async () => {
    writeFileSync(trap, once(`rmdir ${workspace}/.git`));
    await start(shell('echo fine; mkdir .git/hooks'));
    await closed();
    expect(attempts()).toBe(2);
    expect(output).toContain('fine\n');
    expect(output).toContain('Read-only file system');
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('is refused after SANDBOXED_START_ATTEMPTS', async () => {
    writeFileSync(trap, replaceGit());
    await start(shell('echo never'));
    await closed();
    expect(attempts()).toBe(SANDBOXED_START_ATTEMPTS);
    expect(output).toBe(REFUSAL);
    expect(events).toEqual(['1 stderr', '2 exited 127', 'closed']);
  });

  test('is not started again after it was terminated', async () => {
    const waiting = join(folder, 'waiting');
    writeFileSync(trap, `${replaceGit()}; echo ': > ${waiting}; sleep 1000' > ${trap}`);
    const started = start(shell('echo never'));
    const refused = expect(started).rejects.toThrow('start was cancelled');
    await waitFor('the second attempt', () => existsSync(waiting));
    rmSync(waiting);
    expect(await manager.terminate(processId, { type: 'force' })).toBe(true);
    await refused;
    expect(attempts()).toBe(2);
    expect([events, output]).toEqual([[], '']);
    expect(readdirSync(workspace).filter((name) => !name.startsWith('was-'))).toEqual(['.git']);
  });
});

describe('a bwrap that was not probed yet', () => {
  const script = join(folder, 'other-bwrap');
  const first = async (trial: () => Promise<string>) => {
    const bwrap = { works: null, path: trial, trustedPath: async () => script, markWorking: () => {} };
    const { sandboxCalls } = spawner;
    const { signal } = new AbortController();
    const policy = workspacePolicy(workspace);
    const untried = new LinuxSandboxBuilder(sandboxCalls, bwrap, architecture);
    const wrapInSandbox = () =>
      untried.wrapProgram({ ...shell('true'), cwd: workspace }, policy, 'restricted', signal);
    return await startProgram(shell('true'), wrapInSandbox, spawner, signal);
  };
  const refuse = () => Promise.reject(new Error('it does not work here'));

  test.each([
    ['ends', 'exit 1'],
    ['hangs', 'exec sleep 1000'],
  ])('is probed when it %s, and the start fails with the error of the probe', async (_, behaviour) => {
    writeFileSync(script, `#!/bin/sh\n${behaviour}\n`, { mode: 0o755 });
    await expect(first(refuse)).rejects.toThrow('it does not work here');
    expect(readdirSync(workspace)).toEqual(['.git']);
  });

  test('is waited for when it is only slow', async () => {
    writeFileSync(
      script,
      `#!/bin/sh\nsleep ${UNVERIFIED_START_MS / 1_000 + 0.5}\nexec /usr/bin/bwrap "$@"\n`,
      {
        mode: 0o755,
      },
    );
    let tried = 0;
    const { child, launch } = await first(async () => {
      tried++;
      return script;
    });
    await discardChild(child);
    await launch?.release?.();
    expect(tried).toBe(1);
  });
});

describe('a bwrap that has worked before and hangs', () => {
  const script = join(folder, 'hanging-bwrap');
  const bwrap = {
    works: true,
    path: async () => script,
    trustedPath: async () => script,
    markWorking: () => {},
  };

  async function startIn(builder: LinuxSandboxBuilder): Promise<void> {
    const policy = workspacePolicy(workspace, more);
    const { signal } = new AbortController();
    const wrapInSandbox = (spec: SpawnSpec) => builder.wrapProgram(spec, policy, 'restricted', signal);
    const spec = { ...shell('true'), cwd: workspace };
    const { child, launch } = await startProgram(spec, wrapInSandbox, spawner, signal);
    await discardChild(child);
    await launch?.release?.();
    await removedAreClosed();
  }

  /** Lets the deadline expire once its timer runs. */
  async function expire(started: Promise<void>): Promise<void> {
    const timers = vi.mocked(setTimeout);
    const isBuilding = ([, ms]: readonly unknown[]) => ms === BUILD_DEADLINE_MS;
    const refused = expect(started).rejects.toThrow(/^bwrap has not built the sandbox within 20 s: .*again$/);
    await waitFor('bwrap to be waited for', () => timers.mock.calls.some(isBuilding));
    (timers.mock.calls.find(isBuilding)![0] as () => void)();
    await refused;
  }

  afterEach(() => {
    vi.restoreAllMocks();
  });

  test('is killed after BUILD_DEADLINE_MS', async () => {
    writeFileSync(script, '#!/bin/sh\nexec sleep 1000\n', { mode: 0o755 });
    vi.spyOn(globalThis, 'setTimeout');
    await expire(startIn(new LinuxSandboxBuilder(spawner.sandboxCalls, bwrap, architecture)));
    expect(readdirSync(workspace)).toEqual(['.git']);
  });

  test('is killed too when it does not read its arguments', async () => {
    // More than a pipe holds.
    for (let count = 0; count < 300; count++) {
      const path = join(workspace, `${count}`.padStart(150, 'x'));
      mkdirSync(path);
      more = { ...more, [path]: 'deny' };
    }
    const builder = new LinuxSandboxBuilder(spawner.sandboxCalls, bwrap, architecture);
    writeFileSync(script, '#!/bin/sh\nexec /usr/bin/bwrap "$@"\n', { mode: 0o755 });
    await startIn(builder);
    writeFileSync(script, '#!/bin/sh\nexec sleep 1000\n', { mode: 0o755 });
    vi.spyOn(globalThis, 'setTimeout');
    await expire(startIn(builder));
    expect(readdirSync(workspace)).toHaveLength(301);
  });
});

describe('a program that cannot be executed', () => {
  test('fails with the same message and exit code as its launcher', async () => {
    await start(shell(`printf '${REFUSAL.trimEnd()}\\n' >&2; exit 127`));
    await closed();
    expect(attempts()).toBe(1);
    expect(output).toBe(REFUSAL);
    expect(events).toContain('2 exited 127');
  });

  test('does not exist in the sandbox', async () => {
    writeFileSync(join(workspace, 'tool'), '#!/no/such/interpreter\n', { mode: 0o755 });
    await start({ ...shell(''), program: join(workspace, 'tool'), argv: ['tool'] });
    await closed();
    expect(attempts()).toBe(1);
    expect(output).toContain('cannot execute');
  });
});

describe('a change between two programs under one policy', () => {
  const outputOf = async (script: string) => {
    // The order between two streams is undefined.
    await start(shell(`exec 2>&1; ${script}`));
    await closed();
    return output;
  };

  test('is protected from the second program', async () => {
    expect(await outputOf('mkdir .aws/x; echo .*')).toMatch(/Read-only file system\n.*\.agents \.aws/s);
    mkdirSync(join(workspace, '.aws'));
    writeFileSync(join(workspace, '.aws', 'credentials'), 'mine');
    expect(await outputOf('cat .aws/credentials; echo yours > .aws/credentials')).toMatch(
      /^mine.*Read-only file system\n$/s,
    );
    rmSync(join(workspace, '.aws'), { recursive: true });
    expect(await outputOf('mkdir .aws/x')).toContain('Read-only file system');
    expect(readdirSync(workspace)).toEqual(['.git']);
    // None of this needed a second attempt: the cached plan is checked before its use.
    expect(attempts()).toBe(3);
  });

  test('may need other descriptors than the bwrap that was already started', async () => {
    const spawn = vi.spyOn(spawner, 'spawn');
    const secret = join(workspace, 'secret');
    more = { [secret]: 'deny' };
    mkdirSync(secret);
    expect(await outputOf('ls secret')).toContain('Permission denied');
    rmdirSync(secret);
    expect(await outputOf('echo x > secret; mkdir secret')).toMatch(
      /Read-only.*File exists|denied.*File exists/s,
    );
    // A discarded bwrap may end before it has done anything.
    expect(spawn).toHaveBeenCalledTimes(3);
    spawn.mockRestore();
    expect(readdirSync(workspace)).toEqual(['.git']);
  });

  test('may remove the working directory', async () => {
    const inner = join(workspace, 'inner');
    mkdirSync(inner);
    await start({ ...shell('pwd'), cwd: inner });
    await closed();
    expect(output).toBe(`${inner}\n`);
    rmdirSync(inner);
    const again = start({ ...shell('pwd'), cwd: inner });
    await expect(again).rejects.toThrow(new SpawnError('ENOENT', `cwd ${inner} does not exist`));
    expect(readdirSync(workspace)).toEqual(['.git']);
  });
});
