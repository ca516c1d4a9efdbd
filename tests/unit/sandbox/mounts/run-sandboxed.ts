import { spawn } from 'node:child_process';
import { chmod, mkdir, mkdtemp, open, rm, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemPath } from '../../../../src/files/native-path.ts';
import { mountArguments } from '../../../../src/sandbox/linux/bwrap-arguments.ts';
import {
  type MountPlan,
  type MountStep,
  PLACEHOLDER_MODES,
} from '../../../../src/sandbox/mounts/mount-plan.ts';

/** The outcome of a shell script in a sandbox. */
export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a shell script in the file tree of a plan, with the real bwrap. The shell and its tools exist even if the plan hides them. Leaves out
 * the protected names in the root directory of the machine, so that a test creates nothing there.
 */
export async function runSandboxed(whole: MountPlan, script: string): Promise<Outcome> {
  const plan = {
    ...whole,
    steps: whole.steps.filter((step) => !('path' in step && AT_THE_ROOT.test(step.path))),
    placeholders: whole.placeholders.filter(({ path }) => !AT_THE_ROOT.test(path)),
  };
  const folder = await mkdtemp(join(tmpdir(), 'sandboxed-'));
  const handles = [];
  try {
    await makePlaceholders(plan);
    let empties = 0;
    const args = mountArguments(plan, { isolateNetwork: true, emptyFd: () => 4 + empties++ });
    if (!plan.steps.some(showsShell)) args.push(...SHELL);
    await writeFile(join(folder, 'args'), Buffer.from(args.join('\0'), 'latin1'));
    handles.push(await open(join(folder, 'args')));
    for (let count = 0; count < empties; count++) handles.push(await open('/dev/null'));
    const fds = handles.map((handle) => handle.fd);
    return await run(['--args', '3', '--', '/usr/bin/dash', '-c', script], fds);
  } finally {
    for (const handle of handles) await handle.close();
    await rm(folder, { recursive: true });
    await removePlaceholders(plan);
  }
}

const AT_THE_ROOT = /^\/\.\w+$/;
const SHELL = ['--ro-bind', '/usr', '/usr'];
for (const name of ['bin', 'lib', 'lib64']) SHELL.push('--symlink', `usr/${name}`, `/${name}`);

function showsShell(step: MountStep): boolean {
  return step.kind === 'bind' && (step.path === '/' || step.path === '/usr');
}

async function run(args: readonly string[], fds: readonly number[]): Promise<Outcome> {
  const child = spawn('/usr/bin/bwrap', args, {
    stdio: ['ignore', 'pipe', 'pipe', ...fds],
    env: { PATH: '/usr/bin:/bin' },
  });
  const said = { stdout: '', stderr: '' };
  child.stdout!.on('data', (bytes) => (said.stdout += bytes.toString('latin1')));
  child.stderr!.on('data', (bytes) => (said.stderr += bytes.toString('latin1')));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  return { code, ...said };
}

async function makePlaceholders(plan: MountPlan): Promise<void> {
  for (const { path, kind } of plan.placeholders) {
    if (kind === 'directory') await mkdir(systemPath(path));
    else await writeFile(systemPath(path), '');
    await chmod(systemPath(path), PLACEHOLDER_MODES[kind]);
  }
}

async function removePlaceholders(plan: MountPlan): Promise<void> {
  for (const { path, kind } of plan.placeholders) {
    await (kind === 'directory' ? rmdir(systemPath(path)) : rm(systemPath(path)));
  }
}
