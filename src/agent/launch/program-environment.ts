import type { StartParams } from '../../environment/index.ts';

/** What a program gets of its executor's environment. */
export type EnvPolicy = NonNullable<StartParams['envPolicy']>;

/** Who asks for a program, as far as the program may know. */
export interface Caller {
  readonly callId: string;
  readonly threadId?: string | undefined;
  readonly agentSessionId?: string | undefined;
}

/**
 * What every program of a model finds in its environment, whatever the executor has: no colours, no pagers, no prompts and a
 * locale of which the output is UTF-8. All of it is always sent: what the executor has is not known.
 */
export const FIXED_ENVIRONMENT: Readonly<Record<string, string>> = {
  NO_COLOR: '1',
  TERM: 'dumb',
  LANG: 'C.UTF-8',
  LC_CTYPE: 'C.UTF-8',
  LC_ALL: 'C.UTF-8',
  COLORTERM: '',
  PAGER: 'cat',
  GIT_PAGER: 'cat',
  GH_PAGER: 'cat',
  CODEX_CI: '1',
};

/** The executor's own environment, without what an agent that runs there may have left in it about itself. */
export const DEFAULT_ENV_POLICY: EnvPolicy = {
  inherit: 'all',
  ignoreDefaultExcludes: true,
  exclude: [
    'CODEX_PERMISSION_PROFILE',
    'CODEX_VERSION',
    'CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS',
    'CODEX_PLUGIN_METRICS_OUTPUT',
  ],
  set: {},
  includeOnly: [],
};

/** Variables that are laid over what the policy gives. */
export function programEnvironment(
  extra: Readonly<Record<string, string>>,
  { callId, threadId, agentSessionId }: Caller,
): Record<string, string> {
  return {
    ...extra,
    ...FIXED_ENVIRONMENT,
    CODEX_TOOL_CALL_ID: callId,
    ...(threadId === undefined ? {} : { CODEX_THREAD_ID: threadId }),
    ...(agentSessionId === undefined ? {} : { CODEX_SESSION_ID: agentSessionId }),
  };
}

/** Identifiers for the executor, which takes a thread id only when it is a UUID. */
export function programMetadata({ callId, threadId }: Caller): NonNullable<StartParams['metadata']> {
  return threadId !== undefined && UUID.test(threadId)
    ? { toolCallId: callId, threadId }
    : { toolCallId: callId };
}

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
