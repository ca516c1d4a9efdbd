import { onAbort } from '../../base/abort.ts';
import type { ExecProcess } from '../backend.ts';
import { CallLimit, Deadline } from '../connection/call-limit.ts';
import { expectOptions, type OptionNames } from '../connection/option-checks.ts';
import type { ClientError } from '../errors.ts';
import { writeInput } from './input.ts';
import { outputTextOf } from './output.ts';
import { shownProcess } from './process-errors.ts';
import { checkProgramOptions } from './program-checks.ts';
import {
  type Command,
  expectCommand,
  PROGRAM_OPTIONS,
  type ProgramHost,
  type ProgramOptions,
  startParams,
} from './program-options.ts';

/** Options of {@link spawnProgram}. */
export interface SpawnOptions extends ProgramOptions {
  /** Keeps stdin open for `write`. A terminal is always open. */
  readonly pipeStdin?: boolean | undefined;
}

/**
 * Starts a command and returns its process. Callbacks, input, timeout and signal work in the background, and `wait` of the process
 * includes them: an exception of a callback or of the input ends the program and rejects `wait`.
 */
export async function spawnProgram(
  host: ProgramHost,
  command: Command,
  options: SpawnOptions = {},
): Promise<ExecProcess> {
  expectCommand('spawn', command);
  expectOptions('spawn', options, SPAWN_OPTIONS);
  const { onNetworkPolicyRequest, onNetworkPolicyDecision, signal, timeoutMs } = options;
  checkProgramOptions('spawn', options);
  const deadline = new Deadline({ signal, timeoutMs });
  const params = await startParams(host, command, options, deadline);
  const hooks = { onNetworkPolicyRequest, onNetworkPolicyDecision };
  const process = await host.backend.start(params, { ...hooks, ...deadline.remaining });
  const work = follow(process, options, deadline);
  if (work !== null) WORK.set(process, work);
  // The caller may not wait for the process. An unhandled rejection would end its program.
  work?.catch(() => {});
  return process;
}

/** The background work of a process: resolves when it is done, rejects when it failed. */
export function workOf(process: ExecProcess): Promise<void> | undefined {
  return WORK.get(process);
}

/** Whether this client terminated a process because of its `timeoutMs`. */
export function isTimedOut(process: ExecProcess): boolean {
  return TIMED_OUT.has(process);
}

/** The termination of a process at its limit: resolves when it is known whether the process was running. */
export function terminationOf(process: ExecProcess): Promise<void> | undefined {
  return TERMINATIONS.get(process);
}

/** Reports the output of a process to callbacks, in order. Resolves at its end. */
export async function reportOutput(
  process: ExecProcess,
  { onStdout, onStderr, onOutput }: Pick<ProgramOptions, 'onStdout' | 'onStderr' | 'onOutput'>,
  signal?: AbortSignal,
): Promise<void> {
  if (onStdout === undefined && onStderr === undefined && onOutput === undefined) return;
  for await (const { stream, text } of outputTextOf(process, signal && { signal })) {
    await onOutput?.(text, stream);
    await (stream === 'stderr' ? onStderr : onStdout)?.(text);
  }
}

const WORK = new WeakMap<ExecProcess, Promise<void>>();
const TIMED_OUT = new WeakSet<ExecProcess>();
const TERMINATIONS = new WeakMap<ExecProcess, Promise<void>>();

const SPAWN_OPTIONS: OptionNames<SpawnOptions> = { ...PROGRAM_OPTIONS, pipeStdin: true };

/** Null when there is nothing to do. */
function follow(process: ExecProcess, options: SpawnOptions, deadline: Deadline): Promise<void> | null {
  const { input, onStdout, onStderr, onOutput } = options;
  endAtLimit(process, deadline);
  const reports = onStdout !== undefined || onStderr !== undefined || onOutput !== undefined;
  return input === undefined && !reports ? null : work(process, options);
}

async function work(process: ExecProcess, options: SpawnOptions): Promise<void> {
  const ended = new AbortController();
  const stop = onEnd(process, () => ended.abort());
  try {
    const { input } = options;
    const writing = input === undefined ? undefined : writeInput(process, input, ended.signal);
    await Promise.all([writing, reportOutput(process, options)]);
  } catch (error) {
    // A process that can no longer be followed reports that itself.
    if (process.state.failure !== null) return;
    process.terminate().catch(() => {});
    throw error;
  } finally {
    stop();
    ended.abort();
  }
}

/** Terminates the process when the caller's signal aborts or its time is up. */
function endAtLimit(process: ExecProcess, deadline: Deadline): void {
  const limit = new CallLimit(shownProcess(process), deadline.remaining, { kind: 'timeout', unref: true });
  const { signal } = limit;
  if (signal === undefined) return;
  const terminate = () => {
    const timedOut = (signal.reason as ClientError).kind === 'timeout';
    if (timedOut) TIMED_OUT.add(process);
    const terminating = process.terminate().then(
      (wasRunning) => {
        // It has ended by itself, just in time.
        if (!wasRunning) TIMED_OUT.delete(process);
      },
      () => {},
    );
    TERMINATIONS.set(process, terminating);
  };
  if (signal.aborted) terminate();
  const stopListening = onAbort(signal, terminate);
  onEnd(process, () => {
    stopListening();
    limit.end();
  });
}

/** Calls back once, when the process has closed or can no longer be followed. Does not keep Node running. Returns a function that cancels it. */
function onEnd(process: ExecProcess, ended: () => void): () => void {
  const check = () => {
    if (!process.state.closed && process.state.failure === null) return;
    stop();
    ended();
  };
  const stop = process.onChange(check, { unref: true });
  check();
  return stop;
}
