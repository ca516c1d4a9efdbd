import type { ExecProcess } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import type { CommandResult, Host } from '../commands.ts';
import { withClient } from '../environments/with-client.ts';
import { type Place, resultOf } from './endings.ts';
import { type Ending, type Followed, follow } from './follow.ts';
import type { Interruptions } from './interruptions.ts';
import { RECOVERY_MS } from './limits.ts';
import { isSessionGone } from './line-watch.ts';
import type { ProgramOutput } from './program-output.ts';

/** How a command reaches a program that outlives its clients. */
export interface DetachedAccess {
  readonly flags: { readonly environment?: string; readonly 'token-file'?: string };
  readonly clientName: string;
  readonly host: Host;
  readonly interruptions: Interruptions;
  /** Starts the program or attaches to it. */
  open(client: ExecServerClient, place: Place): Promise<DetachedProgram>;
}

/** What a command knows about its program after the first connection. */
export type DetachedProgram = Pick<
  Followed,
  'process' | 'terminal' | 'input' | 'isOnTerminal' | 'wantsKeyboard' | 'losses'
> & {
  readonly output: ProgramOutput;
};

/**
 * Follows a program that outlives its clients, to its end or until this command leaves it. When the server has forgotten the session
 * of this client, the command opens another one and attaches again, after the last event that it has shown.
 */
export async function followDetached(access: DetachedAccess): Promise<CommandResult> {
  const { flags, host, interruptions, clientName } = access;
  const connection = { clientName, signal: interruptions.signal, recoveryWindowMs: 'none' } as const;
  let program: DetachedProgram | null = null;
  let lost: Extract<Ending, { type: 'lost' }> | null = null;
  for (;;) {
    const { ending, place } = await withClient(flags, host, connection, async ({ client, target }) => {
      const place: Place = { target, tokenFile: flags['token-file'] ?? null };
      if (program === null) program = await access.open(client, place);
      else if (lost !== null)
        program = { ...program, process: await attachAgain(client, program.process, lost.seq) };
      const { terminal, input } = program;
      // A person sees what happens, and can leave at any time.
      const recoveryMs = terminal === null && input !== 'person' ? RECOVERY_MS : null;
      const isResumed = lost !== null;
      const followed = {
        ...program,
        ...{ client, place, host, interruptions, outlives: true, recoveryMs, isResumed },
      };
      return { ending: await follow(followed), place };
    }).catch((error: unknown) => {
      program?.terminal?.restore();
      throw interruptions.explain(error);
    });
    const { process, terminal, output, input, losses }: DetachedProgram = program!;
    const isForgotten = ending.type === 'lost' && isSessionGone(ending.error);
    if (isForgotten && ending.inputDone && process.ref !== null) {
      lost = ending;
      program = { ...program!, input: input === 'stream' ? 'none' : input };
      continue;
    }
    terminal?.restore();
    await output.flush();
    return resultOf(ending, {
      place,
      ref: process.name ?? process.ref,
      outlives: true,
      timeout: null,
      isOnTerminal: terminal !== null,
      json: false,
      failure: output.failure,
      losses,
    });
  }
}

async function attachAgain(
  client: ExecServerClient,
  { ref, role }: ExecProcess,
  afterSeq: number,
): Promise<ExecProcess> {
  const attach = (as: 'driver' | 'viewer') => client.attach(ref!, { role: as, afterSeq });
  if (role === 'viewer') return attach('viewer');
  return attach('driver').catch((error) => {
    if (error.kind !== 'conflict') throw error;
    return attach('viewer');
  });
}
