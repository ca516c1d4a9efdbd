import type { FairShares } from '../base/fair-shares.ts';
import type { Spawner } from '../process/spawn/spawner.ts';
import { unenforceable } from './errors.ts';
import { helperProgram } from './file-helper-program.ts';
import { SandboxedFiles } from './files/sandboxed-files.ts';
import { Bwrap } from './linux/bwrap.ts';
import { LinuxSandboxBuilder } from './linux/sandbox-builder.ts';
import { SandboxPool } from './linux/sandbox-pool.ts';
import type { Sandbox } from './sandbox.ts';

interface SandboxOptions {
  readonly prebuild: boolean;
  /** The descriptors that all sessions share; no limit when absent. */
  readonly descriptors?: FairShares;
  readonly bwrapPath?: string;
  readonly helperDirectory?: string;
}

/**
 * Creates the sandbox of this machine. `env` is the server's own environment: bwrap is looked up on its PATH, never on that of a request.
 * Throws SandboxError when this platform is not supported. With `prebuild` the next sandbox for a policy is built before it is needed.
 * `bwrapPath` names bwrap itself, and `helperDirectory` the directory of the file helper; empty or absent for none.
 */
export function createSandbox(
  spawner: Spawner,
  env: Readonly<Record<string, string | undefined>>,
  { prebuild, descriptors, bwrapPath = '', helperDirectory = '' }: SandboxOptions,
): Sandbox {
  const { arch } = process;
  const { sandboxCalls: calls } = spawner;
  if (calls == null || (arch !== 'x64' && arch !== 'arm64')) {
    const reason = spawner.pty.available ? '' : ` (${spawner.pty.reason})`;
    throw unenforceable(
      `programs cannot be sandboxed on this machine: sandboxes need Linux on x64 or arm64 with glibc, and the setting nativeSpawn${reason}`,
    );
  }
  const bwrap = new Bwrap(spawner, env.PATH ?? '', arch, bwrapPath);
  const pool = prebuild ? new SandboxPool((spec) => spawner.spawn(spec), calls, descriptors) : null;
  const programs = new LinuxSandboxBuilder(calls, bwrap, arch, pool, descriptors);
  const files = new SandboxedFiles({
    spawner,
    calls,
    bwrap,
    architecture: arch,
    env,
    ...(helperDirectory !== '' && { program: helperProgram(helperDirectory) }),
    ...(descriptors && { descriptors }),
  });
  return {
    get works() {
      return bwrap.works;
    },
    check: async () => {
      await bwrap.path();
    },
    wrapProgram: (spec, policy, signal, proxied = null) =>
      programs.wrapProgram(spec, policy, proxied === null ? policy.network : 'proxied', signal, proxied),
    files: (policy, owner) => files.files(policy, owner),
    close: async () => {
      await Promise.all([programs.close(), files.close()]);
    },
  };
}
