import { isatty } from 'node:tty';
import type { ExecProcess } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { FREQUENT_PINGS } from '../../client/limits.ts';
import type { SpawnOptions } from '../../client/process/spawn.ts';
import { quoteValue } from '../../server/config/values.ts';
import type { CommandResult, Host } from '../commands.ts';
import { parseDuration } from '../duration.ts';
import { type ClientOptions, LOCAL, type Target } from '../environments/target.ts';
import { withStarter } from '../environments/with-client.ts';
import { RunError, UsageError } from '../failures.ts';
import { type GivenFlags, parseFlags } from '../flags.ts';
import { RUN_FLAGS } from '../specs/run-specs.ts';
import { visible } from '../terminal-text.ts';
import {
  attachCommand,
  commandFor,
  flushed,
  type Place,
  recoveryMsOf,
  resultOf,
  type SessionTime,
} from './endings.ts';
import { type Followed, follow } from './follow.ts';
import { Interruptions } from './interruptions.ts';
import { EXIT_ANSWER_MS } from './limits.ts';
import type { LocalTerminal } from './local-terminal.ts';
import { OutputLosses } from './output-losses.ts';
import { asIfHere, programEnvironment } from './program-environment.ts';
import { hasTerminal, isStdinPiped } from './program-input.ts';
import { JsonOutput, PlainOutput, type ProgramOutput, StandardStreams } from './program-output.ts';
import { sandboxOf } from './sandbox-flag.ts';
import { startFailure } from './start-failure.ts';

type RunFlags = GivenFlags<typeof RUN_FLAGS>;

/** Runs a program in an environment, and ends with its exit code. */
export async function runCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('run', argv, RUN_FLAGS, 'program');
  if (flags.interactive && flags['no-stdin']) throw new UsageError('-i and -n exclude each other', 'run');
  const isOnTerminal = wantsTerminal(flags);
  if (positionals.length === 0 || positionals[0] === '') {
    throw new UsageError('the program is missing; write it after the flags: exec-server run -- ls -l', 'run');
  }
  const options = programOptions(flags, host);
  const interruptions = new Interruptions(host);
  const input = inputOf(flags, isOnTerminal);
  const connection = (target: Target): ClientOptions => ({
    clientName: 'exec-server run',
    signal: interruptions.signal,
    // This command decides itself how long it waits for a lost connection.
    recoveryWindowMs: 'none',
    ...(input === 'person' && FREQUENT_PINGS),
    // A detached program does not need the session.
    ...(!flags.detach && sessionTime(target, input)),
  });
  const running = withStarter(flags, host, connection, ({ client, target }) => {
    const place: Place = { target, tokenFile: flags['token-file'] ?? null };
    const program: Program = {
      ...{ argv: positionals, flags, options, isOnTerminal, input, place, host, interruptions },
    };
    return flags.detach ? startDetached(client, program) : runToEnd(client, program);
  });
  return running.catch((error) => {
    throw interruptions.explain(error);
  });
}

interface Program {
  readonly argv: readonly string[];
  readonly flags: RunFlags;
  readonly options: SpawnOptions;
  readonly isOnTerminal: boolean;
  readonly input: Followed['input'];
  readonly place: Place;
  readonly host: Host;
  readonly interruptions: Interruptions;
}

async function startDetached(client: ExecServerClient, program: Program): Promise<CommandResult> {
  const { flags, host, place, isOnTerminal } = program;
  const { ref, name } = await start(client, program, {
    tty: isOnTerminal && (hasTerminal() ? (await localTerminal(host)).size : true),
    pipeStdin: flags.interactive === true,
    detached: true,
  });
  if (ref === null) {
    const list = commandFor('ps', place);
    throw new RunError(`the server did not report the reference of the program; '${list}' lists programs`, {
      kind: 'protocol',
    });
  }
  const attach = attachCommand(place, name ?? ref);
  const unwritten = `the program runs: '${attach}' attaches to it`;
  if (flags.json) {
    return { text: `${JSON.stringify({ type: 'started', ref, name })}\n`, unwritten, exitCode: 0 };
  }
  const details = host.isTerminal ? `'${attach}' shows the program\n` : '';
  return { text: `${visible(ref)}\n`, details, unwritten, exitCode: 0 };
}

async function runToEnd(client: ExecServerClient, program: Program): Promise<CommandResult> {
  const { flags, host, place, interruptions, isOnTerminal, input } = program;
  const terminal = isOnTerminal ? await localTerminal(host) : null;
  const process = await start(client, program, {
    tty: terminal?.size ?? false,
    pipeStdin: input !== 'none',
    // The program waits for a lost connection, as it waits for a slow reader.
    holdOutput: client.capabilities.processHoldOutput === true,
  });
  const time = sessionTime(place.target, input);
  const streams = new StandardStreams(host.stdout, host.stderr);
  const output: ProgramOutput = flags.json
    ? new JsonOutput(streams)
    : new PlainOutput(streams, terminal !== null);
  output.started(process.ref, process.name);
  const losses = new OutputLosses();
  const followed = {
    client,
    process,
    place,
    host,
    interruptions,
    output,
    terminal,
    input,
    isOnTerminal,
    outlives: false,
    wantsKeyboard: false,
    recoveryMs: recoveryMsOf(client, time),
    isResumed: false,
    losses,
  };
  terminal?.enterRawMode();
  const ending = await follow(followed).finally(() => terminal?.restore());
  if (time.detachedSessionTtlMs !== undefined && ending.type === 'exited') await forget(client, process);
  const result = resultOf(await flushed(ending, output, interruptions), {
    place,
    ref: process.ref,
    outlives: false,
    timeout: flags.timeout ?? null,
    isOnTerminal,
    json: flags.json === true,
    failure: output.failure,
    losses,
  });
  if (!flags.record || !host.isTerminal) return result;
  const hint = `exec-server: recorded; '${commandFor('play', place, process.ref!)}' plays it\n`;
  return { ...result, details: (result.details ?? '') + hint };
}

/**
 * How long the server keeps the program without a connection. The line to another machine can be lost for hours, when a laptop sleeps for
 * example. In a script no person notices a program that still runs, so the default of the server applies. The private server of this
 * machine loses the connection only when this command has ended.
 */
function sessionTime({ name }: Place['target'], input: Followed['input']): SessionTime {
  return name === LOCAL || input !== 'person' ? {} : { detachedSessionTtlMs: 'none' };
}

/** Removes a program that has ended, so that the server does not keep its session and output for a client that will not come back. */
async function forget(client: ExecServerClient, { ref }: ExecProcess): Promise<void> {
  if (ref === null || client.state !== 'connected' || !client.capabilities.processForget) return;
  await client.processes.forget(ref, { timeoutMs: EXIT_ANSWER_MS }).catch(() => {});
}

/** The code for terminals is not loaded for programs without one. */
async function localTerminal(host: Host): Promise<LocalTerminal> {
  const { LocalTerminal } = await import('./local-terminal.ts');
  return new LocalTerminal(host);
}

/** As with ssh, a program of another machine's private server starts at home. That server itself is in `/`. */
async function startDirectory(
  client: ExecServerClient,
  { target }: Place,
  signal: AbortSignal,
): Promise<Pick<SpawnOptions, 'cwd'>> {
  if (!target.address.startsWith('ssh:')) return {};
  const { userHomeDir } = await client.info({ signal });
  return userHomeDir === undefined ? {} : { cwd: userHomeDir };
}

async function start(
  client: ExecServerClient,
  { argv, options, place, interruptions, host }: Program,
  how: Pick<SpawnOptions, 'tty' | 'pipeStdin' | 'detached' | 'holdOutput'>,
): Promise<ExecProcess> {
  const { TERM } = host.env;
  const note = (text: string) => void host.stderr.write(text);
  const own = { ...host.env, ...options.env };
  const here = place.target.name === LOCAL ? asIfHere(own, note, options.cwd) : null;
  const inherited = here?.env ?? (how.tty && TERM ? { TERM } : {});
  try {
    return await client.spawn(argv, {
      ...(await startDirectory(client, place, interruptions.signal)),
      ...options,
      ...how,
      ...here,
      env: { ...inherited, ...options.env },
      signal: interruptions.signal,
    });
  } catch (error) {
    throw startFailure(error, argv, place, how.detached === true);
  }
}

function programOptions(flags: RunFlags, host: Host): SpawnOptions {
  const { name, workdir, timeout, sandbox, record } = flags;
  if (name !== undefined) checkName(name, 'run');
  if (workdir === '') throw new UsageError('--workdir is empty; write . for the current directory', 'run');
  return {
    env: programEnvironment(flags['env-file'] ?? [], flags.env ?? [], host.env),
    ...(name !== undefined && { name }),
    ...(workdir !== undefined && { cwd: workdir }),
    // A limit of the server: it ends the program also when this command is gone.
    ...(timeout !== undefined && { limits: { wallMs: parseDuration(timeout, '--timeout', 'run') } }),
    ...(sandbox !== undefined && { sandbox: sandboxOf(sandbox) }),
    ...(record && { record }),
  };
}

/** Throws UsageError for a name that no server accepts, or that looks like a flag. */
export function checkName(name: string, command: string): void {
  if (/^(?!-)[A-Za-z0-9._-]{1,64}$/.test(name)) return;
  const rule = 'it has up to 64 letters, digits, dots, underscores and hyphens, and no hyphen in front';
  throw new UsageError(`--name ${quoteValue(name)} is not a name; ${rule}`, command);
}

/** Whether the program runs on a terminal. */
function wantsTerminal(flags: RunFlags): boolean {
  const { tty, detach, json } = flags;
  if (!tty) return !detach && !json && !flags['no-stdin'] && hasTerminal();
  if (detach) return true;
  if (json) throw new UsageError('--json and -t exclude each other: what a terminal shows is no JSON', 'run');
  if (hasTerminal()) return true;
  const missing = isatty(0) ? 'stdout is' : isatty(1) ? 'stdin is' : 'stdin and stdout are';
  throw new UsageError(
    `-t needs a terminal, and ${missing} not one; leave -t out, or start the program with -d`,
    'run',
  );
}

function inputOf(flags: RunFlags, isOnTerminal: boolean): Followed['input'] {
  if (isOnTerminal) return 'person';
  if (flags['no-stdin']) return 'none';
  if (isatty(0)) return 'person';
  return isStdinPiped() ? 'stream' : 'none';
}
