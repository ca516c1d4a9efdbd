import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ENCLOSED_START_ATTEMPTS } from '../../../../src/process/limits.ts';
import { ProcessManager } from '../../../../src/process/process-manager.ts';
import { loadLibc } from '../../../../src/process/spawn/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { ChildIo, SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { Bwrap } from '../../../../src/sandbox/linux/bwrap.ts';
import { LinuxEncloser } from '../../../../src/sandbox/linux/enclose.ts';
import { childPids, NO_INPUT, openDescriptors, shell, TERMINAL } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { workspacePolicy } from './enclosed-programs.ts';

const REFUSAL =
  'exec-server: files that the sandbox is about were exchanged while it was built; start again\n';
const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
const spawner = new NativeSpawner(loadLibc());
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'restart-')));
const trap = join(folder, 'trap');
const calls = join(folder, 'calls');

/** A bwrap that does what the trap says before it does its work: between the plan and the mounts. */
const BWRAP = `#!/bin/sh
echo . >> ${calls}
[ ! -e ${trap} ] || . ${trap}
exec /usr/bin/bwrap "$@"
`;

mkdirSync(join(folder, 'bin'), { mode: 0o755 });
writeFileSync(join(folder, 'bin', 'bwrap'), BWRAP, { mode: 0o755 });
const encloser = new LinuxEncloser(
  spawner.enclosing,
  new Bwrap(spawner, join(folder, 'bin'), architecture),
  architecture,
);

let workspace: string;
let descriptors: number;
let manager: ProcessManager;
let events: string[];
let output: string;
let processId: string;

beforeEach(async () => {
  workspace = mkdtempSync(join(folder, 'ws-'));
  mkdirSync(join(workspace, '.git'));
  manager = new ProcessManager(spawner, { maxProcesses: 4, closedRetentionMs: 1_000 });
  // The first one starts the guard and tries bwrap.
  await start(shell('true'));
  await closed();
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
  await encloser.close();
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
  const policy = workspacePolicy(workspace);
  await manager.start({
    processId,
    spec: { ...spec, cwd: workspace },
    retention: { maxBytes: 10_000, maxChunks: 100, headBytes: 0 },
    listener: {
      output: (seq, stream, bytes) => {
        output += bytes.toString();
        events.push(`${seq} ${stream}`);
      },
      exited: (seq, exitCode) => events.push(`${seq} exited ${exitCode}`),
      closed: () => events.push('closed'),
    },
    enclose: (inner, signal) => encloser.encloseProgram(inner, policy, 'restricted', signal),
  });
}

/** In shell: exchanges a directory that is to be mounted. */
const exchange = () => `mv ${workspace}/.git ${workspace}/was-$$ && mkdir ${workspace}/.git`;
const once = (script: string) => `rm ${trap}; ${script}`;

describe('a program whose files are exchanged while its sandbox is built', () => {
  test.each<[string, ChildIo, string]>([
    ['pipes', NO_INPUT, 'stdout'],
    ['a terminal', TERMINAL, 'pty'],
  ])('is started again, on %s, and nothing is heard of the first attempt', async (_on, io, stream) => {
    writeFileSync(trap, once(exchange()));
    await start(shell('echo fine; echo no >> .git/config', io));
    await closed();
    expect(attempts()).toBe(2);
    expect(output).toMatch(/^fine\r?\n.*Read-only file system\r?\n$/);
    expect(events.at(0)).toBe(`1 ${stream}`);
    expect(events.filter((event) => event.includes('exited'))).toHaveLength(1);
    expect(readdirSync(join(workspace, '.git'))).toEqual([]);
  });

  test('is started again when bwrap does not even find them', async () => {
    writeFileSync(trap, once(`rmdir ${workspace}/.git`));
    await start(shell('echo fine; mkdir .git/hooks'));
    await closed();
    expect(attempts()).toBe(2);
    expect(output).toContain('fine\n');
    expect(output).toContain('Read-only file system');
    expect(readdirSync(workspace)).toEqual([]);
  });

  test('is refused in the end when that never stops', async () => {
    writeFileSync(trap, exchange());
    await start(shell('echo never'));
    await closed();
    expect(attempts()).toBe(ENCLOSED_START_ATTEMPTS);
    expect(output).toBe(REFUSAL);
    expect(events).toEqual(['1 stderr', '2 exited 127', 'closed']);
  });

  test('is not started any more once it is terminated', async () => {
    const waiting = join(folder, 'waiting');
    writeFileSync(trap, `${exchange()}; echo ': > ${waiting}; sleep 1000' > ${trap}`);
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

describe('a program that is not to be started again', () => {
  test('ends with the same words and the same code by itself', async () => {
    await start(shell(`printf '${REFUSAL.trimEnd()}\\n' >&2; exit 127`));
    await closed();
    expect(attempts()).toBe(1);
    expect(output).toBe(REFUSAL);
    expect(events).toContain('2 exited 127');
  });

  test('does not exist inside', async () => {
    writeFileSync(join(workspace, 'tool'), '#!/no/such/interpreter\n', { mode: 0o755 });
    await start({ ...shell(''), program: join(workspace, 'tool'), argv: ['tool'] });
    await closed();
    expect(attempts()).toBe(1);
    expect(output).toContain('cannot execute');
  });
});

describe('what changes between two programs under one policy', () => {
  const words = async (script: string) => {
    await start(shell(script));
    await closed();
    return output;
  };

  test('is protected from the second as if it had been there for the first', async () => {
    expect(await words('mkdir .aws/x; echo .*')).toMatch(/Read-only file system\n.*\.agents \.aws/s);
    mkdirSync(join(workspace, '.aws'));
    writeFileSync(join(workspace, '.aws', 'credentials'), 'mine');
    expect(await words('cat .aws/credentials; echo yours > .aws/credentials')).toMatch(
      /^mine.*Read-only file system\n$/s,
    );
    rmSync(join(workspace, '.aws'), { recursive: true });
    expect(await words('mkdir .aws/x')).toContain('Read-only file system');
    expect(readdirSync(workspace)).toEqual(['.git']);
    // None of this needed a second attempt: the plan is looked at before it is used again.
    expect(attempts()).toBe(3);
  });
});
