import type { Candidate, TypedFlags } from '../completion.ts';
import { namesOfRunningServer } from '../environments/running-server.ts';
import { visible } from '../terminal-text.ts';

/** The references and names of recorded programs for completion. Rejects when the server cannot be reached. */
export function recordingNames(typed: TypedFlags, env: NodeJS.ProcessEnv): Promise<readonly Candidate[]> {
  return namesOfRunningServer(typed, env, async (client, signal) => {
    const recordings = await client.recordings.list({ signal });
    return recordings.flatMap(({ ref, name, state, command }) => {
      const description = `${state}: ${visible(command)}`;
      return [name, ref].flatMap((word) => (word === null ? [] : [{ word, description }]));
    });
  });
}
