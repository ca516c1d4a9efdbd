import { RpcError } from '../../protocol/errors.ts';
import type { Link } from '../connection/link.ts';
import { processIdOf, readEvent } from '../connection/server-messages.ts';
import { ClientError } from '../errors.ts';
import { CATCH_UP_CONCURRENCY } from '../limits.ts';
import type { Call } from './catch-up.ts';
import { InconsistentPageError } from './event-order.ts';
import { cannotFollow, type RemoteProcess } from './remote-process.ts';

/** Which process an event belongs to. A process is here from before its start is sent until its last event is told. */
export class ProcessRoutes {
  readonly #processes = new Map<string, RemoteProcess>();

  /** Throws when the id is in use. */
  register(process: RemoteProcess): void {
    if (this.#processes.has(process.processId)) {
      throw new ClientError(
        'invalidInput',
        `a process with the id ${process.processId} is registered already`,
        {
          hint: 'ids must be unique for as long as their process is not closed',
        },
      );
    }
    this.#processes.set(process.processId, process);
  }

  /** Only the very process is taken out, not another one with its id. */
  unregister(process: RemoteProcess): void {
    if (this.#processes.get(process.processId) === process) this.#processes.delete(process.processId);
  }

  has(processId: string): boolean {
    return this.#processes.has(processId);
  }

  /** Hands an event to its process. `unknown` is what concerns none of these processes. */
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
   * Catches up with every process over a new link. No start is under way then: those on the lost link have settled with it. A process
   * that cannot be followed any more is ended and fails alone; what concerns the link itself rejects.
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
    const ownFault =
      error instanceof RpcError ||
      error instanceof InconsistentPageError ||
      (error instanceof ClientError && error.kind === 'protocol');
    if (!ownFault) throw error;
    process.fail(cannotFollow(process.processId, error));
    // Sent when the recovery is done, for which nobody has to wait.
    process.terminate().catch(() => {});
  }
}
