import { unlessAborted } from '../../base/abort.ts';
import type { ExecProcess } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { FREQUENT_PINGS } from '../../client/limits.ts';
import type { CommandResult, Host } from '../commands.ts';
import { withClient, withStarter } from '../environments/with-client.ts';
import { attachCommand, flushed, type Place, resultOf } from './endings.ts';
import { type Ending, type Followed, follow } from './follow.ts';
import type { Interruptions } from './interruptions.ts';
import { RECOVERY_MS } from './limits.ts';
import { isSessionGone, processGoneError } from './line-watch.ts';
import type { ProgramOutput } from './program-output.ts';

/** How a command reaches a program that outlives its clients. */
interface DetachedAccess {
  readonly flags: { readonly environment?: string; readonly 'token-file'?: string };
  readonly clientName: string;
  readonly host: Host;
  readonly interruptions: Interruptions;
  /** Whether `open` starts the program. */
  readonly starts: boolean;
  /** Whether the command prints JSON. */
  readonly json?: boolean;
  /** Starts the program or attaches to it. */
  open(client: ExecServerClient, place: Place): Promise<DetachedProgram>;
}

/** What a command knows about its program after the first connection. */
type DetachedProgram = Pick<
  Followed,
  'process' | 'terminal' | 'input' | 'isOnTerminal' | 'wantsKeyboard' | 'losses' | 'noteAfterScreen'
> & {
  readonly output: ProgramOutput;
};

/**
 * Follows a program that outlives its clients, to its end or until this command leaves it. When the server has forgotten the session
 * of this client, the command opens another one and attaches again, after the last event that it has shown.
 */
export async function followDetached(access: DetachedAccess): Promise<CommandResult> {
  const { flags, host, interruptions, clientName } = access;
  const connection = {
    clientName,
    get signal() {
      return interruptions.signal;
    },
    recoveryWindowMs: 'none',
    ...(host.isTerminal && FREQUENT_PINGS),
  } as const;
  let program: DetachedProgram | null = null;
  let lost: Extract<Ending, { type: 'lost' }> | null = null;
  for (;;) {
    const whileDraining = !access.starts || program !== null;
    const connect = whileDraining ? withClient : withStarter;
    const options = { ...connection, whileDraining };
    const { ending, place } = await connect(flags, host, options, async ({ client, target }) => {
      const place: Place = { target, tokenFile: flags['token-file'] ?? null };
      if (program === null) program = await access.open(client, place);
      else if (lost !== null) {
        const { process } = program;
        const attaching = attachAgain(client, process, lost.seq).catch((error) => {
          throw processGoneError(error, process.name ?? process.ref!);
        });
        program = { ...program, process: await unlessAborted(attaching, interruptions.signal) };
      }
      interruptions.signal.throwIfAborted();
      const { terminal, input } = program;
      // A person sees what happens, and can leave at any time.
      const recoveryMs = terminal === null && input !== 'person' ? RECOVERY_MS : null;
      const isResumed = lost !== null;
      const followed = {
        ...program,
        ...{ client, place, host, interruptions, outlives: true, recoveryMs, isResumed },
      };
      const ending = await follow(followed);
      const { name, ref, processId } = program.process;
      const command = attachCommand(place, name ?? ref ?? processId);
      interruptions.endCommand(
        `while connecting again; the program should keep running: '${command}' attaches to it`,
      );
      return { ending, place };
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
    return resultOf(await flushed(ending, output, interruptions), {
      place,
      ref: process.name ?? process.ref,
      outlives: true,
      timeout: null,
      isOnTerminal: terminal !== null,
      json: access.json === true,
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
