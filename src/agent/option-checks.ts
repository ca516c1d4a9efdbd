import {
  checkBoolean,
  checkDuration,
  checkFunction,
  checkSignal,
  expectOptions,
  expectText,
  type OptionNames,
  wrong,
} from '../client/connection/option-checks.ts';
import type { AgentExecOptions, ExecContext, ReopenContext } from './options.ts';

/** Checks the options of an agent. Throws ClientError of the kind `invalidInput`. */
export function checkAgentOptions(options: AgentExecOptions): void {
  // Null is no object either; a missing argument is not a default here.
  expectOptions('AgentExec', options ?? null, AGENT_OPTIONS);
  const { targets, onEvent, random, allowLogin, detached, maxPollMs } = options;
  checkTargets(targets);
  checkFunction('onEvent', onEvent);
  checkFunction('random', random);
  checkBoolean('allowLogin', allowLogin);
  checkBoolean('detached', detached);
  checkDuration('maxPollMs', maxPollMs);
}

/** Checks the context of a call, which is from the program and not from the model. Throws ClientError. */
export function checkContext(
  call: string,
  context: ExecContext | ReopenContext,
  names: Readonly<Record<string, true>>,
): void {
  if (context === undefined || context === null)
    throw wrong(`the context of \`${call}\` is`, context, 'an object', "pass { callId: 'call-1' }");
  expectOptions(`the context of \`${call}\``, context, names);
  const { callId, targets, signal } = context;
  expectText('callId', callId, 'pass the id of the call of the model');
  if (targets !== undefined) checkTargets(targets);
  checkSignal(signal);
}

export const REOPEN_CONTEXT: OptionNames<ReopenContext> = {
  callId: true,
  turnId: true,
  targets: true,
  signal: true,
  environmentId: true,
};

export const EXEC_CONTEXT: OptionNames<ExecContext> = {
  callId: true,
  turnId: true,
  threadId: true,
  agentSessionId: true,
  targets: true,
  signal: true,
};

const AGENT_OPTIONS: OptionNames<AgentExecOptions> = {
  targets: true,
  onEvent: true,
  policy: true,
  envPolicy: true,
  env: true,
  allowLogin: true,
  truncation: true,
  detached: true,
  maxPollMs: true,
  clock: true,
  random: true,
};

function checkTargets(targets: unknown): void {
  if (!Array.isArray(targets))
    throw wrong('`targets` is', targets, 'a list', 'pass [await environmentTarget(environment)]');
}
