import type {
  CallOptions,
  CapabilityDiscovery,
  DiscoveredRoot,
  SandboxRequest,
} from '../../client/backend.ts';
import { ClientError, type ClientErrorKind } from '../../client/errors.ts';
import type { Environment } from '../environment.ts';
import { DISCOVERY_READY_WAIT_MS, DISCOVERY_TIMEOUT_MS } from '../limits.ts';
import type { SelectedCapabilityRoot } from './selected-root.ts';

/** The part of an environment that discovery uses. */
export type DiscoverableEnvironment = Pick<Environment, 'id' | 'info' | 'waitUntilReady'> & {
  readonly discovery: CapabilityDiscovery;
};

/** A root and the sandbox for reading its files; null for none. */
interface RequestedRoot {
  readonly root: SelectedCapabilityRoot;
  readonly sandbox: unknown;
}

/** The result of the discovery of one root. */
export type RootOutcome =
  | { readonly discovered: DiscoveredRoot; readonly error: null }
  | { readonly discovered: null; readonly error: DiscoveryFailure };

export interface DiscoveryFailure {
  readonly message: string;
  /** Whether the next step retries. Otherwise the failure lasts as long as the thread. */
  readonly retryable: boolean;
}

/**
 * Discovers roots of one environment in one request. After a connection failure it waits for the connection and retries once; a
 * request that timed out is not retried. Rejects only when the caller aborts.
 */
export async function requestDiscovery(
  environment: DiscoverableEnvironment,
  requested: readonly RequestedRoot[],
  signal: AbortSignal | undefined,
): Promise<readonly RootOutcome[]> {
  try {
    const answer = await withSecondTry(environment, signal, () =>
      discover(environment, requested, { signal }),
    );
    return matched(requested, answer);
  } catch (error) {
    if (!(error instanceof ClientError) || signal?.aborted) throw error;
    const failure = { message: error.message, retryable: isTransient(error) };
    return requested.map(() => ({ discovered: null, error: failure }));
  }
}

/** Whether the sandbox restricts anything. */
function isEnforcing(sandbox: unknown): boolean {
  if (sandbox == null) return false;
  const { permissions } = sandbox as { readonly permissions?: { readonly type?: unknown } | null };
  return permissions?.type !== 'disabled';
}

async function withSecondTry<T>(
  environment: DiscoverableEnvironment,
  signal: AbortSignal | undefined,
  attempt: () => Promise<T>,
): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    if (!isTransient(error) || error.kind === 'timeout' || signal?.aborted) throw error;
    const isBack = await environment.waitUntilReady({ signal, timeoutMs: DISCOVERY_READY_WAIT_MS }).then(
      () => true,
      () => false,
    );
    if (!isBack) throw error;
    return await attempt();
  }
}

async function discover(
  environment: DiscoverableEnvironment,
  requested: readonly RequestedRoot[],
  options: CallOptions,
): Promise<readonly DiscoveredRoot[]> {
  const limited = { ...options, timeoutMs: DISCOVERY_TIMEOUT_MS };
  if (requested.some(({ sandbox }) => isEnforcing(sandbox))) {
    const { capabilities } = await environment.info(limited);
    if (capabilities?.capabilityDiscoverySandbox !== true) {
      throw new ClientError(
        'unsupported',
        `environment '${environment.id}' cannot sandbox capability discovery`,
        {
          hint: 'update its server, or enable the sandbox there',
        },
      );
    }
  }
  const roots = requested.map(({ root: { id, location }, sandbox }) => ({
    id,
    path: location.path,
    ...(isEnforcing(sandbox) && { sandbox: sandbox as SandboxRequest }),
  }));
  return await environment.discovery.discover(roots, limited);
}

/** Checks that the response is about the requested roots. */
function matched(
  requested: readonly RequestedRoot[],
  answer: readonly DiscoveredRoot[],
): readonly RootOutcome[] {
  if (answer.length !== requested.length) {
    throw new ClientError(
      'protocol',
      `${requested.length} roots were requested, but the server returned ${answer.length}`,
    );
  }
  return requested.map(({ root: { id, location } }, index) => {
    const discovered = answer[index]!;
    if (discovered.id === id && discovered.path === location.path) return { discovered, error: null };
    const message = `root '${id}' was requested, but the server returned '${discovered.id}' at ${discovered.path}`;
    return { discovered: null, error: { message, retryable: false } };
  });
}

function isTransient(error: unknown): error is ClientError {
  return error instanceof ClientError && (error.retryable || TRANSIENT.has(error.kind));
}

/** Whether the connection failed, rather than the request. */
const TRANSIENT: ReadonlySet<ClientErrorKind> = new Set<ClientErrorKind>([
  'connectTimeout',
  'connectFailed',
  'initializeTimeout',
  'disconnected',
  'timeout',
  'overloaded',
  'closed',
  'spawn',
  'brokenPipe',
]);
