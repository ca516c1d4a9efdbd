import { TimeLimit } from '../../base/time-limit.ts';
import type { ExecServerClient } from '../../client/client.ts';
import type { Candidate, TypedFlags } from '../completion.ts';
import { COMPLETION_TIMEOUT_MS } from '../programs/limits.ts';
import { currentDirectory } from './current-directory.ts';
import { findTarget } from './target.ts';

/**
 * Names for completion from a server that runs already. Asks it for a short time, and starts none. Each name is returned once. Rejects
 * when the server cannot be reached.
 */
export async function namesOfRunningServer(
  { environment, 'token-file': tokenFile }: TypedFlags,
  env: NodeJS.ProcessEnv,
  list: (client: ExecServerClient, signal: AbortSignal) => Promise<readonly Candidate[]>,
): Promise<readonly Candidate[]> {
  const flags = { environment: environment ?? null, tokenFile: tokenFile ?? null };
  const target = await findTarget(flags, { env, directory: currentDirectory() });
  return TimeLimit.run(COMPLETION_TIMEOUT_MS, null, async (signal) => {
    const options = {
      clientName: 'exec-server completion',
      detachedSessionTtlMs: 0,
      whileDraining: true,
      recoveryWindowMs: 0,
    };
    const client = await target.connectToRunning({ ...options, signal });
    if (client === null) return [];
    try {
      const candidates = await list(client, signal);
      // A name may have belonged to several processes.
      return [...new Map(candidates.map((candidate) => [candidate.word, candidate])).values()];
    } finally {
      await client.close();
    }
  });
}
