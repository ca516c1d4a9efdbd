import type { Candidate, TypedFlags } from '../completion.ts';
import { namesOfRunningServer } from '../environments/running-server.ts';
import { commandLine } from '../terminal-text.ts';
import type { FoundProcess } from './find-process.ts';
import { stateText } from './ps.ts';

/** Which processes a command takes. */
type Kind = 'PROCESS' | 'RUNNING' | 'ENDED';

/** The references and names of processes for completion. Rejects when the server cannot be reached. */
export function processNames(
  kind: Kind,
  typed: TypedFlags,
  env: NodeJS.ProcessEnv,
): Promise<readonly Candidate[]> {
  return namesOfRunningServer(typed, env, async (client, signal) => {
    const processes = await client.processes.list({ scope: 'owner', signal });
    return processes
      .map((process) => ({ ...process, ref: process.ref ?? process.processId }))
      .filter((process) => isWanted(process, kind))
      .flatMap(candidatesOf);
  });
}

function isWanted({ state }: FoundProcess, kind: Kind): boolean {
  return kind === 'PROCESS' || (state === 'closed') === (kind === 'ENDED');
}

function candidatesOf(process: FoundProcess): Candidate[] {
  const description = `${stateText(process)}: ${commandLine(process.argv)}`;
  return [process.name, process.ref].flatMap((word) => (word === null ? [] : [{ word, description }]));
}
