import { toFileUri } from '../../client/paths.ts';
import { type CallOptions, ClientError, type ProcessInfo } from '../../environment/index.ts';
import { EXECUTOR_TIMEOUT_MS } from '../limits.ts';
import { WatchedProcess } from '../session/watched-process.ts';
import type { CommandRequest } from './policy.ts';
import type { ExecTarget } from './request.ts';

/** A program of another agent that is followed again. */
interface Reopened {
  readonly process: WatchedProcess;
  readonly request: CommandRequest;
  readonly startedAtMs: number;
}

/**
 * Follows a program again that another agent started, from the first output that the executor retains. Becomes its driver. Rejects
 * with a ClientError.
 */
export async function reopen(
  target: ExecTarget,
  ref: string,
  callId: string,
  { signal }: CallOptions,
): Promise<Reopened> {
  const { processes } = target;
  const options = { signal, timeoutMs: EXECUTOR_TIMEOUT_MS };
  if (processes === undefined) {
    throw new ClientError('unsupported', `the target '${target.id}' cannot reopen programs`, {
      hint: 'set its `processes`, as `environmentTarget` does',
    });
  }
  const info = await processes.get(ref, options);
  const process = await processes.attach(info.ref ?? ref, { takeOver: true, ...options });
  const request = requestOf(info, target, callId);
  return { process: new WatchedProcess(process), request, startedAtMs: info.startedAt.getTime() };
}

/** The request as far as the executor knows it. */
function requestOf({ argv, cwd, tty }: ProcessInfo, target: ExecTarget, callId: string): CommandRequest {
  return {
    callId,
    environmentId: target.id,
    cmd: argv.at(-1) ?? '',
    command: argv,
    cwd: toFileUri(cwd, null),
    tty,
    sandboxPermissions: 'use_default',
    additionalPermissions: null,
    justification: null,
    prefixRule: null,
  };
}
