import { readdirSync, readlinkSync } from 'node:fs';
import { childPath, nativePathOfText } from '../../../../src/files/native-path.ts';
import { loadCachedCalls } from '../../../../src/native/cached-calls.ts';
import type { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { SandboxCalls, Spawner, SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
import { spawnLaunch } from '../../../../src/process/start-program.ts';
import { Bwrap } from '../../../../src/sandbox/linux/bwrap.ts';
import { LinuxSandboxBuilder } from '../../../../src/sandbox/linux/sandbox-builder.ts';
import type { SandboxPool } from '../../../../src/sandbox/linux/sandbox-pool.ts';
import type { NetworkMode } from '../../../../src/sandbox/linux/seccomp.ts';
import type { Access, PolicyEntry, SandboxPolicy } from '../../../../src/sandbox/policy/policy.ts';
import { type Outcome, record, type Transcript } from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

export const PROTECTED_NAMES = ['.agents', '.aws', '.codex', '.git'];

export const UNRESTRICTED: SandboxPolicy = { disk: 'unrestricted', network: 'restricted' };

/** Every file is readable, and the folder is writable except for its protected names. `more` adds entries. */
export function workspacePolicy(folder: string, more: Readonly<Record<string, Access>> = {}): SandboxPolicy {
  const root = nativePathOfText(folder);
  const entries: PolicyEntry[] = [
    { path: root, access: 'write', byName: false },
    ...PROTECTED_NAMES.map((name) => ({
      path: childPath(root, name),
      access: 'read' as const,
      byName: true,
    })),
    ...Object.entries(more).map(([path, access]) => ({
      path: nativePathOfText(path),
      access,
      byName: false,
    })),
  ];
  entries.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { network: 'restricted', disk: { base: 'read', platform: false, denyGlobs: [], entries } };
}

const { openPath: openCached } = await loadCachedCalls();

/** A builder that uses the bwrap and the kernel caches of this machine. */
export function newSandboxBuilder(
  spawner: NativeSpawner,
  calls: SandboxCalls = { ...spawner.sandboxCalls, openCached },
  reserve: SandboxPool | null = null,
): LinuxSandboxBuilder {
  const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
  const bwrap = new Bwrap(spawner, process.env.PATH ?? '', architecture);
  return new LinuxSandboxBuilder(calls, bwrap, architecture, reserve);
}

/** Waits until removed placeholders are closed, which happens in the background, and until their callbacks have run. */
export async function removedAreClosed(): Promise<void> {
  await waitFor(
    'removed placeholders to be closed',
    () => !descriptorTargets().some((at) => at.endsWith(' (deleted)') && !at.startsWith('/memfd:')),
  );
  // A thread closes the descriptor before the event loop runs the callback.
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}

function descriptorTargets(): string[] {
  return readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
}

/** A started program and its cleanup. */
export interface SandboxedProgram extends Transcript {
  /** Resolves when all output is read, all processes of the sandbox have ended, and the placeholders are removed. */
  finish(): Promise<Outcome & { readonly denied: boolean }>;
}

/** Starts programs in sandboxes as a process manager does. */
export function starter(spawner: Spawner, builder: LinuxSandboxBuilder) {
  return async (
    spec: SpawnSpec,
    policy: SandboxPolicy,
    network: NetworkMode = 'restricted',
  ): Promise<SandboxedProgram> => {
    const launch = await builder.wrapProgram(spec, policy, network);
    const transcript = record(await spawnLaunch(launch, spawner));
    const { child, text } = transcript;
    if ((await launch.entered?.(child)) === false) throw new Error('the program was not executed');
    const finish = async () => {
      const [status] = await Promise.all([transcript.exited, transcript.ended]);
      child.release();
      await child.killTree();
      await launch.release?.();
      await removedAreClosed();
      const [stdout, stderr, pty] = [text('stdout'), text('stderr'), text('pty')];
      launch.denialDetector?.output('stderr', Buffer.from(stdout + stderr + pty));
      const denied = launch.denialDetector?.denied(status.code ?? 128 + status.signal!) ?? false;
      return { stdout, stderr, pty, status, denied };
    };
    return { ...transcript, finish };
  };
}
