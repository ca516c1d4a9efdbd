import { unlessAborted } from '../../base/abort.ts';
import { ExecToolError, messageOf } from '../errors.ts';
import { ABANDON_MS, EARLY_EXIT_MS, EXECUTOR_TIMEOUT_MS, TERMINATE_TIMEOUT_MS } from '../limits.ts';
import { decode } from '../output/model-text.ts';
import { waitForEnd } from '../session/collect.ts';
import { WatchedProcess } from '../session/watched-process.ts';
import type { Clock } from '../time/clock.ts';
import type { PausableTime } from '../time/pausable-time.ts';
import type { CommandRequest, ExecPolicy } from './policy.ts';
import type { Caller } from './program-environment.ts';
import { type EnvironmentChoices, type ExecTarget, startParams } from './request.ts';
import { isSandboxDenial } from './sandbox-denial.ts';

/** What launching a command needs. */
export interface Launch {
  readonly request: CommandRequest;
  readonly target: ExecTarget;
  readonly caller: Caller;
  readonly sessionId: number;
  readonly policy: ExecPolicy;
  readonly environment: EnvironmentChoices;
  readonly clock: Clock;
  readonly time: PausableTime;
  readonly signal: AbortSignal;
}

export interface Launched {
  readonly process: WatchedProcess;
  readonly sandboxed: boolean;
}

/** Rejects unless the policy lets the command run. */
export async function approve({ request, policy, time, signal }: Launch): Promise<void> {
  if (policy.approve === undefined) return;
  const approval = await ask(time, signal, () => policy.approve!(request, { signal }));
  if (!approval.approved) throw new ExecToolError('exec_command', 'declined', approval.reason);
}

/**
 * Starts the program, sandboxed as the policy says. One that its sandbox stops at once is started again without it if the policy
 * wants that; nobody has heard of the first then. An abort lets a program live that has been started.
 */
export async function launch(call: Launch): Promise<Launched> {
  const sandbox = call.policy.chooseSandbox?.(call.request) ?? null;
  const process = await start(call, sandbox);
  const sandboxed = isSandboxed(process, sandbox !== null);
  if (!sandboxed || call.policy.onDenied === undefined) return { process, sandboxed };
  await waitForEnd(process, EARLY_EXIT_MS, call);
  if (call.signal.aborted || !process.state.ended || !isDenied(process, sandboxed))
    return { process, sandboxed };
  const denial = { exitCode: process.state.exitCode, output: decode(process.transcript.render()) };
  const again = await ask(call.time, call.signal, () =>
    call.policy.onDenied!(call.request, denial, { signal: call.signal }),
  );
  if (!again) return { process, sandboxed };
  const free = await start(call, null);
  return { process: free, sandboxed: isSandboxed(free, false) };
}

/** Whether a program that has ended was probably stopped by its sandbox. */
export function isDenied({ state, transcript }: WatchedProcess, sandboxed: boolean): boolean {
  return isSandboxDenial({
    sandboxed,
    exitCode: state.exitCode,
    reported: state.sandboxDenied,
    output: sandboxed ? decode(transcript.render()) : '',
  });
}

/** Ends a process unless it is known to be gone. Rejects when the executor cannot be reached or refuses. */
export async function endProcess(process: WatchedProcess, clock: Clock): Promise<void> {
  if (process.state.closed) return;
  await process.process.terminate(undefined, { timeoutMs: TERMINATE_TIMEOUT_MS });
  abandonLater(process, clock);
}

/** Like {@link endProcess}, for a process that nobody will ask for again: what cannot be ended is not followed for ever. */
export function endQuietly(process: WatchedProcess, clock: Clock): void {
  endProcess(process, clock).catch(() => abandonLater(process, clock));
}

/** Something that has escaped its end may hold the output of a program open as long as it likes. */
function abandonLater(process: WatchedProcess, clock: Clock): void {
  if (process.state.ended) return;
  const cancel = clock.after(ABANDON_MS, () => process.giveUp('it was ended, but its output stays open'));
  void process.ended.then(cancel);
}

async function start(call: Launch, sandbox: unknown): Promise<WatchedProcess> {
  // The executor remembers ids of programs that have ended, so each is used once.
  const processId = `${call.sessionId}-${crypto.randomUUID()}`;
  const params = startParams(call.request, processId, sandbox, call.caller, call.environment);
  try {
    const options = { signal: call.signal, timeoutMs: EXECUTOR_TIMEOUT_MS };
    return new WatchedProcess(await call.target.backend.start(params, options));
  } catch (error) {
    if (call.signal.aborted) throw call.signal.reason;
    throw new ExecToolError('exec_command', 'launchFailed', messageOf(error), { cause: error });
  }
}

/** Executors that say nothing are taken at the word of the request. */
function isSandboxed({ process }: WatchedProcess, requested: boolean): boolean {
  return process.sandboxType === null ? requested : process.sandboxType !== 'none';
}

/** Waits for somebody's answer while the time stands still. Rejects with the reason of the signal when that aborts first. */
async function ask<Answer>(
  time: PausableTime,
  signal: AbortSignal,
  question: () => Promise<Answer>,
): Promise<Answer> {
  const resume = time.pause();
  try {
    signal.throwIfAborted();
    return await unlessAborted(question(), signal);
  } finally {
    resume();
  }
}
