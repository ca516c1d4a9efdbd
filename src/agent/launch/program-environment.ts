import type { EnvPolicy, StartParams } from '../../environment/index.ts';

/** The caller of a program, as the program sees it. */
export interface Caller {
  readonly callId: string;
  readonly threadId?: string | undefined;
  readonly agentSessionId?: string | undefined;
}

/**
 * Variables of every program of a model: no colors, no pagers, no prompts and a UTF-8 locale. They are always sent, because the
 * executor's own variables are unknown.
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

/** Inherits the executor's environment, except for variables that an agent on that machine sets for itself. */
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

/** Variables that override the inherited ones. */
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

/**
 * Identifiers for the executor. It accepts only a UUID as the thread id, and metadata without one removes CODEX_THREAD_ID from the
 * environment. Another thread id is therefore sent without metadata; the program then has no CODEX_TOOL_CALL_ID.
 */
export function programMetadata({ callId, threadId }: Caller): StartParams['metadata'] {
  if (threadId === undefined) return { toolCallId: callId };
  return UUID.test(threadId) ? { toolCallId: callId, threadId } : null;
}

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
