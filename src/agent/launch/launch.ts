import { unlessAborted } from '../../base/abort.ts';
import type { Clock, PausableClock } from '../clock.ts';
import { ExecToolError, messageOf } from '../errors.ts';
import { ABANDON_MS, EARLY_EXIT_MS, EXECUTOR_TIMEOUT_MS, TERMINATE_TIMEOUT_MS } from '../limits.ts';
import { decode } from '../output/model-text.ts';
import { waitForEnd } from '../session/collect.ts';
import { WatchedProcess } from '../session/watched-process.ts';
import type { CommandRequest, ExecPolicy } from './policy.ts';
import type { Caller } from './program-environment.ts';
import { type EnvironmentChoices, type ExecTarget, startParams } from './request.ts';
import { isSandboxDenial } from './sandbox-denial.ts';

/** The input of a launch. */
export interface Launch {
  readonly request: CommandRequest;
  readonly target: ExecTarget;
  readonly caller: Caller;
  readonly sessionId: number;
  readonly policy: ExecPolicy;
  readonly environment: EnvironmentChoices;
  readonly clock: Clock;
  readonly time: PausableClock;
  readonly signal: AbortSignal;
}

interface Launched {
  readonly process: WatchedProcess;
  readonly sandboxed: boolean;
}

/** Rejects unless the policy approves the command. */
export async function approve({ request, policy, time, signal }: Launch): Promise<void> {
  if (policy.approve === undefined) return;
  const approval = await ask(time, signal, () => policy.approve!(request, { signal }));
  if (!approval.approved) throw new ExecToolError('exec_command', 'declined', approval.reason);
}

/**
 * Starts the program in the sandbox of the policy. If the sandbox stops it immediately, the policy may have it started again without
 * a sandbox; the first start then causes no events. An abort does not terminate a started program.
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

/** Whether the sandbox probably stopped a program that has ended. */
export function isDenied({ state, transcript }: WatchedProcess, sandboxed: boolean): boolean {
  return isSandboxDenial({
    sandboxed,
    exitCode: state.exitCode,
    reported: state.sandboxDenied,
    output: sandboxed ? decode(transcript.render()) : '',
  });
}

/** Terminates a process unless it has ended. Rejects when the executor is unreachable or returns an error. */
export async function endProcess(process: WatchedProcess, clock: Clock): Promise<void> {
  if (process.state.closed) return;
  await process.process.terminate(undefined, { timeoutMs: TERMINATE_TIMEOUT_MS });
  abandonLater(process, clock);
}

/** Like {@link endProcess} for a process without a session. A process that cannot be terminated is followed for a limited time. */
export function endQuietly(process: WatchedProcess, clock: Clock): void {
  endProcess(process, clock).catch(() => abandonLater(process, clock));
}

/** A surviving child process may keep the output of a program open without a limit. */
function abandonLater(process: WatchedProcess, clock: Clock): void {
  if (process.state.ended) return;
  const cancel = clock.after(ABANDON_MS, () => process.abandon('it was ended, but its output stays open'));
  void process.ended.then(cancel);
}

async function start(call: Launch, sandbox: unknown): Promise<WatchedProcess> {
  // The executor keeps the ids of ended programs, so each id is used once.
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

/** Without a report of the executor the request decides. */
function isSandboxed({ process }: WatchedProcess, requested: boolean): boolean {
  return process.sandboxType === null ? requested : process.sandboxType !== 'none';
}

/** Waits for a decision while time limits are paused. Rejects with the signal's reason when it aborts first. */
async function ask<Answer>(
  time: PausableClock,
  signal: AbortSignal,
  question: () => Promise<Answer>,
): Promise<Answer> {
  const resume = time.pause();
  try {
    signal.throwIfAborted();
    // A program in JavaScript may decide without a promise.
    return await unlessAborted(Promise.resolve(question()), signal);
  } finally {
    resume();
  }
}
