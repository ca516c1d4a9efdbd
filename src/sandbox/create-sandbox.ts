import type { Spawner } from '../process/spawn/spawner.ts';
import { unenforceable } from './errors.ts';
import { SandboxedFiles } from './files/sandboxed-files.ts';
import { Bwrap } from './linux/bwrap.ts';
import { SandboxReserve } from './linux/reserve.ts';
import { LinuxSandboxBuilder } from './linux/sandbox-builder.ts';
import type { Sandbox } from './sandbox.ts';

/**
 * What enforces policies on this machine. `env` is the server's own environment: bwrap is looked for on its PATH, never on that of a
 * request. Throws SandboxError where nothing can be enforced.
 */
export function createSandbox(spawner: Spawner, env: Readonly<Record<string, string | undefined>>): Sandbox {
  const { arch } = process;
  if (spawner.sandboxCalls == null || (arch !== 'x64' && arch !== 'arm64')) {
    throw unenforceable(
      'nothing can be sandboxed here: that takes Linux on x64 or arm64, the GNU C library, and nativeSpawn',
    );
  }
  const bwrap = new Bwrap(spawner, env.PATH ?? '', arch);
  const reserve = new SandboxReserve((spec) => spawner.spawn(spec), spawner.sandboxCalls);
  const programs = new LinuxSandboxBuilder(spawner.sandboxCalls, bwrap, arch, reserve);
  const files = new SandboxedFiles({ spawner, bwrap, architecture: arch, env });
  return {
    get works() {
      return bwrap.works;
    },
    check: async () => {
      await bwrap.path();
    },
    wrapProgram: (spec, policy, signal, proxied = null) =>
      programs.wrapProgram(spec, policy, proxied === null ? policy.network : 'proxied', signal, proxied),
    files: (policy) => files.files(policy),
    close: async () => {
      await Promise.all([programs.close(), files.close()]);
    },
  };
}
