import type { ExecBackend, ExecProcess, ProcessState, StartParams, WaitOptions } from '../backend.ts';
import { CallLimit, Deadline } from '../connection/call-limit.ts';
import {
  CALL_OPTIONS,
  checkBytes,
  checkFunction,
  checkOneOf,
  expectOptions,
  type OptionNames,
} from '../connection/option-checks.ts';
import { ClientError, withCallerStack } from '../errors.ts';
import { RUN_END_TIMEOUT_MS, RUN_MAX_OUTPUT_BYTES } from '../limits.ts';
import { expectInput, type ProgramInput, writeInput } from './input.ts';
import { OutputCollector, type RunResult } from './output-collector.ts';
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
import { reportOutput, terminationOf, workOf } from './spawn.ts';

export interface CollectOptions extends Pick<ProgramOptions, 'onStdout' | 'onStderr' | 'onOutput'> {
  /** An abort terminates the program and rejects. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Terminates the program after this time. With `run`, the start has the same timeout and rejects when it is
   * exceeded.
   */
  readonly timeoutMs?: number | undefined;
  /** Bytes to keep of each stream, from its beginning. Further bytes are only counted. */
  readonly maxOutputBytes?: number | undefined;
}

/** Options of a program that runs to its end. */
export interface RunOptions extends ProgramOptions, Pick<CollectOptions, 'maxOutputBytes'> {}

/**
 * Runs a program until it ends. With start params, only `input` and the options of {@link communicate} apply. Rejects when the program
 * cannot be started or followed, and then terminates it if possible.
 */
export function run(
  backend: ExecBackend,
  program: readonly string[] | StartParams,
  options: RunOptions = {},
): Promise<RunResult> {
  if (isArgv(program)) expectCommand('run', program);
  return runStarted(options, async (deadline) => {
    const params = isArgv(program)
      ? await startParams(describedBy(backend), program, options, deadline)
      : program;
    // Awaited, so that stack traces show the caller.
    return await backend.start(params, startOptions(options, deadline));
  });
}

/** Like {@link run}, on a client or an environment. */
export function runProgram(
  host: ProgramHost,
  command: Command,
  options: RunOptions = {},
): Promise<RunResult> {
  return runStarted(options, async (deadline) => {
    expectCommand('run', command);
    const params = await startParams(host, command, options, deadline);
    return await host.backend.start(params, startOptions(options, deadline));
  });
}

/**
 * Waits until a process has exited and all its output has arrived (`closed`), or only until it has exited. Rejects
 * when the process can no longer be followed, and when a callback or the input of `spawn` failed.
 */
export async function wait(process: ExecProcess, options: WaitOptions = {}): Promise<ProcessState> {
  expectOptions('wait', options, WAIT_OPTIONS);
  const { until = 'closed', signal } = options;
  checkOneOf('until', until, ['exited', 'closed']);
  const limit = new CallLimit(`waiting for ${shownProcess(process)}`, options);
  const work = until === 'closed' ? workOf(process) : undefined;
  // It has ended already, so `timeoutMs: 0` is a question, not a timeout.
  if (process.state[until] && work === undefined && !signal?.aborted) {
    limit.end();
    return process.state;
  }
  let stop = () => {};
  const ended = new Promise<void>((resolve, reject) => {
    const check = () => {
      const { state } = process;
      if (state.failure !== null && !state[until]) reject(state.failure);
      else if (state[until]) resolve();
    };
    stop = process.onChange(check);
    check();
  });
  try {
    await limit.race(Promise.all([ended, work]));
    await limit.race(Promise.resolve(terminationOf(process)));
    return process.state;
  } catch (error) {
    throw withCallerStack(error);
  } finally {
    stop();
    limit.end();
  }
}

/**
 * Writes the input, closes stdin, and collects the output until the process ends. A program that does not read all
 * its input is no error. Without input, stdin stays open.
 */
export function communicate(
  process: ExecProcess,
  input: ProgramInput | undefined,
  options: CollectOptions = {},
): Promise<RunResult> {
  expectOptions('communicate', options, COLLECT_OPTIONS);
  for (const name of ['onStdout', 'onStderr', 'onOutput'] as const) checkFunction(name, options[name]);
  expectInput(input);
  return collectRun(process, { ...options, input }, performance.now());
}

async function runStarted(
  options: RunOptions,
  start: (deadline: Deadline) => Promise<ExecProcess>,
): Promise<RunResult> {
  expectOptions('run', options, RUN_OPTIONS);
  checkBytes('maxOutputBytes', options.maxOutputBytes);
  checkProgramOptions('run', options);
  const startedAt = performance.now();
  const process = await start(new Deadline({ signal: options.signal, timeoutMs: options.timeoutMs }));
  try {
    return await collectRun(process, options, startedAt);
  } catch (error) {
    process.terminate().catch(() => {});
    throw error;
  }
}

async function collectRun(
  process: ExecProcess,
  options: CollectOptions & Pick<RunOptions, 'input'>,
  startedAt: number,
): Promise<RunResult> {
  const { signal, timeoutMs, input, maxOutputBytes = RUN_MAX_OUTPUT_BYTES } = options;
  checkBytes('maxOutputBytes', maxOutputBytes);
  const limit = new CallLimit(shownProcess(process), { signal, timeoutMs });
  const collector = new OutputCollector(maxOutputBytes);
  const stop = new AbortController();
  const collecting = collector.collect(process, stop.signal).then(() => stop.abort());
  const writing = input === undefined ? Promise.resolve() : writeInput(process, input, stop.signal);
  const reporting = reportOutput(process, options);
  let timedOut = false;
  try {
    await limit.race(Promise.all([collecting, writing, reporting]));
    const { closed, failure } = process.state;
    // The output ends without an error when the caller has detached, but there is no result.
    if (!closed && failure !== null) throw failure;
  } catch (error) {
    if (limit.signal?.aborted)
      await terminateAndCollect(process, Promise.allSettled([collecting, reporting]));
    timedOut = error instanceof ClientError && error.kind === 'timeout' && error === limit.signal?.reason;
    if (!timedOut) throw error;
  } finally {
    limit.end();
    stop.abort();
    await Promise.allSettled([collecting, writing]);
  }
  return collector.result(process.state, { timedOut, wallTimeMs: performance.now() - startedAt });
}

function startOptions({ onNetworkPolicyRequest, onNetworkPolicyDecision }: RunOptions, deadline: Deadline) {
  return { onNetworkPolicyRequest, onNetworkPolicyDecision, ...deadline.remaining };
}

const COLLECT_OPTIONS: OptionNames<CollectOptions> = {
  ...CALL_OPTIONS,
  onStdout: true,
  onStderr: true,
  onOutput: true,
  maxOutputBytes: true,
};
const RUN_OPTIONS: OptionNames<RunOptions> = { ...PROGRAM_OPTIONS, maxOutputBytes: true };
const WAIT_OPTIONS: OptionNames<WaitOptions> = { ...CALL_OPTIONS, until: true };

function isArgv(program: readonly string[] | StartParams): program is readonly string[] {
  return Array.isArray(program);
}

/** A host that is only known as a backend. What needs a description of it is not available. */
function describedBy(backend: ExecBackend): ProgramHost {
  const info = async () => {
    throw new ClientError('unsupported', 'a backend does not describe its executor', {
      hint: 'use `client.run` or `environment.run`',
    });
  };
  return { backend, info };
}

/** Terminates the process and waits briefly for its remaining output. */
async function terminateAndCollect(process: ExecProcess, collecting: Promise<unknown>): Promise<void> {
  const limit = new CallLimit('terminating the process', { timeoutMs: RUN_END_TIMEOUT_MS });
  try {
    // `terminate` has no timeout: during a recovery it is sent later, so that no program stays behind.
    await limit.race(process.terminate());
    await limit.race(collecting);
  } catch {
    // The termination was requested; the client can do no more.
  } finally {
    limit.end();
  }
}
