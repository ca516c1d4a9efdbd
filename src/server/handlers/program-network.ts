import type { Enclose } from '../../process/process-manager.ts';
import { invalidRequest } from '../../protocol/errors.ts';
import type { ProgramNetwork, WantedSockets } from './network-launch.ts';
import type { HandlerServices } from './services.ts';
import type { CheckedStart } from './start-process.ts';

/** What a start asks of the network, made when the program is about to be started and gone with it. */
export interface StartNetwork {
  readonly sockets: WantedSockets | null;
  /** Makes it before the program is confined. */
  around(confined: Enclose | null): Enclose;
  started(): void;
  close(): void;
}

/** Null when nothing is asked for, which is most often so. Throws RpcError for what the server's floor rules out. */
export function programNetwork(
  { session, proxies, confinement, log }: HandlerServices,
  { processId, sandbox = null, networkProxy = null, enforceManagedNetwork = false }: CheckedStart,
): StartNetwork | null {
  const enclosed = enforceManagedNetwork && sandbox !== null;
  if (networkProxy === null && !enclosed) return null;
  if (confinement.networkForbidden) {
    throw invalidRequest(
      'no program gets at the network here (minSandbox); send networkProxy null and do not enforce one',
    );
  }
  const { policyQuestions, policyDecisions } = session;
  const services = { proxies, policyQuestions, policyDecisions };
  let network: ProgramNetwork | null = null;
  return {
    get sockets() {
      return network?.sockets ?? null;
    },
    around: (confined) => async (spec, signal) => {
      const { openNetwork } = await import('./network-launch.ts');
      network = await openNetwork(
        { processId, env: spec.env, networkProxy, enclosed },
        services,
        process.env,
      );
      const inNetwork = { ...spec, env: { ...spec.env, ...network?.environment } };
      return (await confined?.(inNetwork, signal)) ?? { spec: inNetwork, judge: null, release: null };
    },
    started: () =>
      network?.started((error) => log.warn('a program has no network', { processId, reason: error.message })),
    close: () => network?.close(),
  };
}
