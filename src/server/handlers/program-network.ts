import { nativePathOfText } from '../../files/native-path.ts';
import { uriFromPath } from '../../files/path-uri.ts';
import { unsandboxedLaunch, type WrapInSandbox } from '../../process/start-program.ts';
import { invalidRequest } from '../../protocol/errors.ts';
import type { SandboxContext } from '../../protocol/sandbox.ts';
import type { ProgramNetwork, WantedSockets } from './network-launch.ts';
import type { HandlerServices } from './services.ts';
import type { CheckedStart } from './start-process.ts';

/** What a start asks of the network, made when the program is about to be started and gone with it. */
export interface StartNetwork {
  readonly sockets: WantedSockets | null;
  /** What the program is restricted to, with what it must read of its network besides. */
  readonly sandbox: SandboxContext | null;
  /** Makes it before the program is sandboxed. */
  around(wrapInSandbox: WrapInSandbox | null): WrapInSandbox;
  started(): void;
  close(): void;
}

/** Null when nothing is asked for, which is most often so. Throws RpcError for what the server's floor rules out or cannot be kept. */
export function programNetwork(
  { session, proxies, sandboxEnforcer, log }: HandlerServices,
  { processId, sandbox = null, networkProxy = null, enforceManagedNetwork = false }: CheckedStart,
): StartNetwork | null {
  const sandboxed = enforceManagedNetwork && sandbox !== null;
  if (networkProxy === null && !sandboxed) return null;
  if (sandboxEnforcer.networkForbidden) {
    throw invalidRequest(
      'no program gets at the network here (minSandbox); send networkProxy null and do not enforce one',
    );
  }
  const { policyQuestions, policyDecisions } = session;
  const services = { proxies, policyQuestions, policyDecisions };
  const isMasked = networkProxy?.proxy.credentialMasking ?? false;
  let network: ProgramNetwork | null = null;
  return {
    get sockets() {
      return network?.sockets ?? null;
    },
    sandbox: isMasked ? withReadable(sandbox, proxies.bundlePath) : sandbox,
    around: (wrapInSandbox) => async (spec, signal) => {
      const { openNetwork } = await import('./network-launch.ts');
      // A program that has to be sandboxed once more keeps its network.
      network ??= await openNetwork(
        { processId, env: spec.env, networkProxy, sandboxed },
        services,
        process.env,
      );
      const inNetwork = network === null ? spec : { ...spec, env: network.environmentOver(spec.env) };
      return (await wrapInSandbox?.(inNetwork, signal)) ?? unsandboxedLaunch(inNetwork);
    },
    started: () =>
      network?.started((error) => log.warn('a program has no network', { processId, reason: error.message })),
    close: () => network?.close(),
  };
}

/** The same sandbox, in which the file can be read and not written. Sandboxes by name leave every file readable. */
function withReadable(sandbox: SandboxContext | null, path: string): SandboxContext | null {
  if (sandbox === null || !('permissions' in sandbox)) return sandbox;
  const { permissions } = sandbox;
  if (permissions.type !== 'managed' || permissions.file_system.type !== 'restricted') return sandbox;
  const uri = uriFromPath(nativePathOfText(path));
  const readable = { path: { type: 'path', path: uri }, access: 'read' } as const;
  const file_system = {
    ...permissions.file_system,
    entries: [...permissions.file_system.entries, readable],
  };
  return { ...sandbox, permissions: { ...permissions, file_system } };
}
