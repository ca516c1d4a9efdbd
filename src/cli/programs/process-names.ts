import { TimeLimit } from '../../base/time-limit.ts';
import type { Candidate, TypedFlags } from '../completion.ts';
import { findTarget, type Target } from '../environments/target.ts';
import { commandLine } from '../terminal-text.ts';
import type { FoundProcess } from './find-process.ts';
import { COMPLETION_TIMEOUT_MS } from './limits.ts';
import { stateText } from './ps.ts';

/** Which processes a command takes. */
type Kind = 'PROCESS' | 'RUNNING' | 'ENDED';

/**
 * The references and names of processes for completion. Asks a server that runs already, for a short time, and starts none. Rejects when
 * it cannot be reached.
 */
export async function processNames(
  kind: Kind,
  { environment, 'token-file': tokenFile }: TypedFlags,
  env: NodeJS.ProcessEnv,
): Promise<readonly Candidate[]> {
  const flags = { environment: environment ?? null, tokenFile: tokenFile ?? null };
  const target = await findTarget(flags, { env, directory: process.cwd() });
  return TimeLimit.run(COMPLETION_TIMEOUT_MS, null, (signal) => namesAt(target, kind, signal));
}

async function namesAt(target: Target, kind: Kind, signal: AbortSignal): Promise<readonly Candidate[]> {
  const options = { clientName: 'exec-server completion', detachedSessionTtlMs: 0, recoveryWindowMs: 0 };
  const client = await target.connectToRunning({ ...options, signal });
  if (client === null) return [];
  try {
    const processes = await client.processes.list({ scope: 'owner', signal });
    const candidates = processes
      .map((process) => ({ ...process, ref: process.ref ?? process.processId }))
      .filter((process) => isWanted(process, kind))
      .flatMap(candidatesOf);
    // A name may have belonged to several processes.
    return [...new Map(candidates.map((candidate) => [candidate.word, candidate])).values()];
  } finally {
    await client.close();
  }
}

function isWanted({ state }: FoundProcess, kind: Kind): boolean {
  return kind === 'PROCESS' || (state === 'closed') === (kind === 'ENDED');
}

function candidatesOf(process: FoundProcess): Candidate[] {
  const description = `${stateText(process)}: ${commandLine(process.argv)}`;
  return [process.name, process.ref].flatMap((word) => (word === null ? [] : [{ word, description }]));
}
