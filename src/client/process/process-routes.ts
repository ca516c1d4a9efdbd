import { RpcError } from '../../protocol/errors.ts';
import type { StartOptions } from '../backend.ts';
import type { Link } from '../connection/link.ts';
import type { PolicyHandler } from '../connection/policy-requests.ts';
import { processIdOf, readEvent, readPolicyDecision } from '../connection/server-messages.ts';
import { ClientError } from '../errors.ts';
import { CATCH_UP_CONCURRENCY } from '../limits.ts';
import type { Call } from './catch-up.ts';
import { InconsistentPageError } from './event-order.ts';
import { cannotFollow } from './process-errors.ts';
import type { RemoteProcess } from './remote-process.ts';

/** The functions of a start that concern the network of its process. */
export type NetworkHooks = Pick<StartOptions, 'onNetworkPolicyRequest' | 'onNetworkPolicyDecision'>;

interface Route {
  readonly process: RemoteProcess;
  readonly hooks: NetworkHooks;
}

/**
 * Routes events to processes. A process is registered from before its start is sent until its last event is
 * delivered.
 */
export class ProcessRoutes {
  readonly #routes = new Map<string, Route>();

  /** Throws when the id is in use. */
  register(process: RemoteProcess, hooks: NetworkHooks = {}): void {
    if (this.#routes.has(process.processId)) {
      throw new ClientError('invalidInput', `the process id ${process.processId} is already in use`, {
        hint: 'use an id that no open process has',
      });
    }
    this.#routes.set(process.processId, { process, hooks });
  }

  /** Removes exactly this process, not another one with the same id. */
  unregister(process: RemoteProcess): void {
    if (this.#routes.get(process.processId)?.process === process) this.#routes.delete(process.processId);
  }

  /** Returns the handler for the hosts of a registered process: its own, or else `common`. */
  policyHandlerOf(processId: string, common: PolicyHandler | undefined): PolicyHandler | undefined {
    const route = this.#routes.get(processId);
    return route && (route.hooks.onNetworkPolicyRequest ?? common);
  }

  /** Passes an event to its process. Returns `unknown` when no registered process is concerned. */
  receive(method: string, params: unknown): 'routed' | 'unreadable' | 'unknown' {
    if (!PROCESS_EVENTS.has(method)) return 'unknown';
    const processId = processIdOf(params);
    if (processId === null) return 'unreadable';
    const process = this.#routes.get(processId)?.process;
    if (process === undefined) return 'unknown';
    const event = readEvent(method, params);
    if (event === null) return 'unreadable';
    process.receive(event);
    return 'routed';
  }

  /** Passes a decision about the network to the start of its process. */
  receiveDecision(params: unknown): void {
    const listener = this.#routes.get(processIdOf(params) ?? '')?.hooks.onNetworkPolicyDecision;
    const decision = listener && readPolicyDecision(params);
    if (decision) listener(decision);
  }

  /**
   * Catches up with every process over a new link. No start is pending then: starts on the lost link have settled
   * with it. A process that can no longer be followed is terminated and fails alone. Errors of the link itself
   * reject.
   */
  async catchUp(link: Link, signal: AbortSignal): Promise<void> {
    const queue = [...this.#routes.values()]
      .map(({ process }) => process)
      .filter((process) => process.recoverable);
    const call: Call = (method, params) => link.call(method, params, { signal });
    const worker = async () => {
      for (let process = queue.pop(); process !== undefined; process = queue.pop()) {
        await catchUpOrFail(process, call);
      }
    };
    await Promise.all(Array.from({ length: CATCH_UP_CONCURRENCY }, worker));
  }

  failAll(error: ClientError): void {
    for (const { process } of [...this.#routes.values()]) process.fail(error);
  }
}

const PROCESS_EVENTS: ReadonlySet<string> = new Set(['process/output', 'process/exited', 'process/closed']);

async function catchUpOrFail(process: RemoteProcess, call: Call): Promise<void> {
  try {
    await process.catchUp(call);
  } catch (error) {
    const concernsProcess =
      error instanceof RpcError ||
      error instanceof InconsistentPageError ||
      (error instanceof ClientError && error.kind === 'protocol');
    if (!concernsProcess) throw error;
    process.fail(cannotFollow(process.processId, error));
    // Sent after the recovery; the recovery does not wait for it.
    process.terminate().catch(() => {});
  }
}
