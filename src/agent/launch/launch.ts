import { unlessAborted } from '../../base/abort.ts';
import type { StartOptions } from '../../environment/index.ts';
import type { Clock, PausableClock } from '../clock.ts';
import { ExecToolError, messageOf } from '../errors.ts';
import { ABANDON_MS, EARLY_EXIT_MS, EXECUTOR_TIMEOUT_MS, TERMINATE_TIMEOUT_MS } from '../limits.ts';
import { decode } from '../output/model-text.ts';
import { waitForEnd } from '../session/collect.ts';
import { NetworkDecisions } from '../session/network-decisions.ts';
import { WatchedProcess } from '../session/watched-process.ts';
import { checkedNetwork, hostHandler, isEnforced, networkParams } from './network.ts';
import type { CommandRequest, ExecPolicy, NetworkChoice } from './policy.ts';
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
  /** Whether the program outlives its agent. */
  readonly detached: boolean;
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
 * a sandbox; the first start then causes no events. Both have the network of the policy. An abort does not terminate a started
 * program.
 */
export async function launch(call: Launch): Promise<Launched> {
  const sandbox = call.policy.chooseSandbox?.(call.request) ?? null;
  const network = checkedNetwork(call.policy.chooseNetwork?.(call.request));
  const process = await start(call, sandbox, network);
  const sandboxed = isSandboxed(process, sandbox !== null || isEnforced(network));
  // A second start with the same sandbox of the network would fail like the first.
  const onlyNetwork = sandbox === null && isEnforced(network);
  if (!sandboxed || onlyNetwork || call.policy.onDenied === undefined) return { process, sandboxed };
  await waitForEnd(process, EARLY_EXIT_MS, call);
  if (call.signal.aborted || !process.state.ended || !isDenied(process, sandboxed))
    return { process, sandboxed };
  const denial = { exitCode: process.state.exitCode, output: decode(process.transcript.render()) };
  const again = await ask(call.time, call.signal, () =>
    call.policy.onDenied!(call.request, denial, { signal: call.signal }),
  );
  if (!again) return { process, sandboxed };
  const free = await start(call, null, network);
  return { process: free, sandboxed: isSandboxed(free, isEnforced(network)) };
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

async function start(call: Launch, sandbox: unknown, network: NetworkChoice | null): Promise<WatchedProcess> {
  // The executor keeps the ids of ended programs, so each id is used once.
  const processId = `${call.sessionId}-${crypto.randomUUID()}`;
  const params = {
    ...startParams(call.request, processId, sandbox, call.caller, call.environment),
    ...(network === null ? {} : networkParams(network, sandbox, call.policy.approveHost !== undefined)),
    ...(call.detached && { lifetime: { type: 'detached' as const } }),
  };
  const decisions = new NetworkDecisions();
  const ending = new AbortController();
  try {
    const process = await call.target.backend.start(params, {
      signal: call.signal,
      timeoutMs: EXECUTOR_TIMEOUT_MS,
      ...(network === null ? {} : networkHooks(call, decisions, ending.signal)),
    });
    const watched = new WatchedProcess(process, decisions);
    void watched.ended.then(() => ending.abort());
    return watched;
  } catch (error) {
    if (call.signal.aborted) throw call.signal.reason;
    throw new ExecToolError('exec_command', 'launchFailed', messageOf(error), { cause: error });
  }
}

/** The functions that decide about the hosts of a program and receive the decisions. */
function networkHooks(call: Launch, decisions: NetworkDecisions, ended: AbortSignal): NetworkHooks {
  const { policy, request, time } = call;
  const processId = String(call.sessionId);
  return {
    onNetworkPolicyDecision: (decision) => decisions.take(decision),
    ...(policy.approveHost && {
      onNetworkPolicyRequest: hostHandler(
        (host, signal) =>
          ask(time, signal, () => policy.approveHost!(request, { processId, ...host }, { signal })),
        ended,
      ),
    }),
  };
}

type NetworkHooks = Pick<StartOptions, 'onNetworkPolicyDecision' | 'onNetworkPolicyRequest'>;

/** Without a report of the executor the request decides. */
function isSandboxed({ process }: WatchedProcess, requested: boolean): boolean {
  return process.sandboxType === null ? requested : process.sandboxType !== 'none';
}

/** Waits for a decision while time limits are paused. Rejects with the signal's reason when it aborts first. */
async function ask<Answer>(
  time: PausableClock,
  signal: AbortSignal,
  request: () => Promise<Answer>,
): Promise<Answer> {
  const resume = time.pause();
  try {
    signal.throwIfAborted();
    // A program in JavaScript may decide without a promise.
    return await unlessAborted(Promise.resolve(request()), signal);
  } finally {
    resume();
  }
}
