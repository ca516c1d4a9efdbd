import { readdirSync, readlinkSync } from 'node:fs';
import { childPath, nativePathOfText } from '../../../../src/files/native-path.ts';
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

/** Everything is readable, the folder writable but for its protected names, and what else is said. */
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

/** One that uses the bwrap of this machine. */
export function newSandboxBuilder(
  spawner: NativeSpawner,
  calls: SandboxCalls = spawner.sandboxCalls,
  reserve: SandboxPool | null = null,
): LinuxSandboxBuilder {
  const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
  const bwrap = new Bwrap(spawner, process.env.PATH ?? '', architecture);
  return new LinuxSandboxBuilder(calls, bwrap, architecture, reserve);
}

/** Placeholders that have been removed stay open for a moment longer. */
export async function removedAreClosed(): Promise<void> {
  await waitFor(
    'what was removed to be closed',
    () => !descriptorTargets().some((at) => at.endsWith(' (deleted)') && !at.startsWith('/memfd:')),
  );
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

/** A started program and what has to happen when it is over. */
export interface SandboxedProgram extends Transcript {
  /** Resolves when everything has been read, everything in the sandbox is gone, and so are its placeholders. */
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
