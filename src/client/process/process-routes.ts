import { RpcError } from '../../protocol/errors.ts';
import type { Link } from '../connection/link.ts';
import { processIdOf, readEvent } from '../connection/server-messages.ts';
import { ClientError } from '../errors.ts';
import { CATCH_UP_CONCURRENCY } from '../limits.ts';
import type { Call } from './catch-up.ts';
import { InconsistentPageError } from './event-order.ts';
import { cannotFollow, type RemoteProcess } from './remote-process.ts';

/**
 * Routes events to processes. A process is registered from before its start is sent until its last event is
 * delivered.
 */
export class ProcessRoutes {
  readonly #processes = new Map<string, RemoteProcess>();

  /** Throws when the id is in use. */
  register(process: RemoteProcess): void {
    if (this.#processes.has(process.processId)) {
      throw new ClientError('invalidInput', `the process id ${process.processId} is already in use`, {
        hint: 'use an id that no open process has',
      });
    }
    this.#processes.set(process.processId, process);
  }

  /** Removes exactly this process, not another one with the same id. */
  unregister(process: RemoteProcess): void {
    if (this.#processes.get(process.processId) === process) this.#processes.delete(process.processId);
  }

  has(processId: string): boolean {
    return this.#processes.has(processId);
  }

  /** Passes an event to its process. Returns `unknown` when no registered process is concerned. */
  receive(method: string, params: unknown): 'routed' | 'unreadable' | 'unknown' {
    if (!PROCESS_EVENTS.has(method)) return 'unknown';
    const processId = processIdOf(params);
    if (processId === null) return 'unreadable';
    const process = this.#processes.get(processId);
    if (process === undefined) return 'unknown';
    const event = readEvent(method, params);
    if (event === null) return 'unreadable';
    process.receive(event);
    return 'routed';
  }

  /**
   * Catches up with every process over a new link. No start is pending then: starts on the lost link have settled
   * with it. A process that can no longer be followed is terminated and fails alone. Errors of the link itself
   * reject.
   */
  async catchUp(link: Link, signal: AbortSignal): Promise<void> {
    const queue = [...this.#processes.values()].filter((process) => process.recoverable);
    const call: Call = (method, params) => link.call(method, params, { signal });
    const worker = async () => {
      for (let process = queue.pop(); process !== undefined; process = queue.pop()) {
        await catchUpOrFail(process, call);
      }
    };
    await Promise.all(Array.from({ length: CATCH_UP_CONCURRENCY }, worker));
  }

  failAll(error: ClientError): void {
    for (const process of [...this.#processes.values()]) process.fail(error);
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
