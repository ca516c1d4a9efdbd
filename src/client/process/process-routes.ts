import { notify } from '../../base/listeners.ts';
import { RpcError } from '../../protocol/errors.ts';
import type { StartOptions } from '../backend.ts';
import type { Link } from '../connection/link.ts';
import type { PolicyHandler } from '../connection/policy-requests.ts';
import { processIdOf, readEvent, readPolicyDecision } from '../connection/server-messages.ts';
import { readAttachment, readSkipped } from '../connection/sharing-messages.ts';
import { ClientError } from '../errors.ts';
import { CATCH_UP_CONCURRENCY } from '../limits.ts';
import type { ProcessAttachment } from '../sharing.ts';
import { AttachOrder } from './attach-order.ts';
import { reattach, renewWindow } from './attach-requests.ts';
import type { Attachment } from './attachment.ts';
import type { Call } from './catch-up.ts';
import { InconsistentPageError } from './event-order.ts';
import { cannotFollow, shownProcess } from './process-errors.ts';
import type { RemoteProcess } from './remote-process.ts';

/** The functions of a start that concern the network of its process. */
export type NetworkHooks = Pick<StartOptions, 'onNetworkPolicyRequest' | 'onNetworkPolicyDecision'>;

/** The handles of one process. There are several when this client attaches to a process more than once. */
interface Route {
  readonly attachment: Attachment;
  readonly processes: Set<RemoteProcess>;
  readonly hooks: NetworkHooks;
}

/**
 * Routes events to processes. A process is registered from before its start is sent, or from the answer to its attach,
 * until its last event is delivered.
 */
export class ProcessRoutes {
  readonly attachOrder = new AttachOrder();
  readonly #routes = new Map<string, Route>();

  /** Adds a process that is about to start. Throws when the id is in use. */
  register(process: RemoteProcess, attachment: Attachment, hooks: NetworkHooks = {}): void {
    if (this.#routes.has(process.processId)) {
      throw new ClientError('invalidInput', `the process id ${process.processId} is already in use`, {
        hint: 'use an id that no open process has',
      });
    }
    this.#routes.set(process.processId, { attachment, processes: new Set([process]), hooks });
  }

  /** Adds a handle of a process that this client has attached to. */
  join(process: RemoteProcess, attachment: Attachment): void {
    const route = this.#routes.get(process.processId);
    if (route !== undefined) route.processes.add(process);
    else this.#routes.set(process.processId, { attachment, processes: new Set([process]), hooks: {} });
  }

  /** The attachment of a registered process. */
  attachmentOf(processId: string): Attachment | undefined {
    return this.#routes.get(processId)?.attachment;
  }

  /** The attachment of a registered process, by its reference, its name or its id. */
  find(wanted: string): Attachment | undefined {
    for (const [processId, { attachment }] of this.#routes) {
      if ([processId, attachment.ref, attachment.name].includes(wanted)) return attachment;
    }
    return undefined;
  }

  /** Removes exactly this handle. Returns whether another one of the same process is left. */
  unregister(process: RemoteProcess): boolean {
    const route = this.#routes.get(process.processId);
    if (route?.processes.delete(process) && route.processes.size === 0)
      this.#routes.delete(process.processId);
    return this.#routes.has(process.processId);
  }

  /** Returns the handler for the hosts of a registered process: its own, or else `common`. */
  policyHandlerOf(processId: string, common: PolicyHandler | undefined): PolicyHandler | undefined {
    const route = this.#routes.get(processId);
    return route && (route.hooks.onNetworkPolicyRequest ?? common);
  }

  /** Passes a notification to its process. Returns `unknown` when no registered process is concerned. */
  receive(method: string, params: unknown): 'routed' | 'unreadable' | 'unknown' {
    if (!PROCESS_NOTIFICATIONS.has(method)) return 'unknown';
    const processId = processIdOf(params);
    if (processId === null) return 'unreadable';
    const route = this.#routes.get(processId);
    if (route === undefined) return 'unknown';
    return deliver(route, method, params) ? 'routed' : 'unreadable';
  }

  /** Passes a decision about the network to the start of its process. */
  receiveDecision(params: unknown): void {
    const listener = this.#routes.get(processIdOf(params) ?? '')?.hooks.onNetworkPolicyDecision;
    const decision = listener && readPolicyDecision(params);
    if (decision) notify('onNetworkPolicyDecision', listener, decision);
  }

  /**
   * Attaches again to the processes of other sessions, and catches up with every process over a new link. No start is
   * pending then: starts on the lost link have settled with it. A process that can no longer be followed fails alone.
   * Errors of the link itself reject.
   */
  async catchUp(link: Link, signal: AbortSignal): Promise<void> {
    const queue = [...this.#routes.values()];
    const worker = async () => {
      for (let route = queue.pop(); route !== undefined; route = queue.pop())
        await recover(route, link, signal);
    };
    await Promise.all(Array.from({ length: CATCH_UP_CONCURRENCY }, worker));
  }

  failAll(error: ClientError): void {
    for (const { processes } of [...this.#routes.values()]) failEach(processes, error);
  }
}

const PROCESS_NOTIFICATIONS: ReadonlySet<string> = new Set([
  'process/output',
  'process/exited',
  'process/closed',
  'process/attachment',
  'process/skipped',
]);

/** Returns false when the params are invalid. */
function deliver({ attachment, processes }: Route, method: string, params: unknown): boolean {
  if (method === 'process/attachment') {
    const change = readAttachment(params);
    if (change === null) return false;
    attachment.change(change);
    if (change.role === 'none')
      for (const process of [...processes]) process.fail(noLongerAttached(process, change));
    return true;
  }
  if (method === 'process/skipped') {
    const toSeq = readSkipped(params);
    if (toSeq === null) return false;
    for (const process of processes) process.skipped(toSeq);
    return true;
  }
  const event = readEvent(method, params);
  if (event === null) return false;
  for (const process of [...processes]) process.receive(event);
  return true;
}

async function recover({ attachment, processes }: Route, link: Link, signal: AbortSignal): Promise<void> {
  const followed = [...processes].filter((process) => process.recoverable);
  const [first] = followed;
  if (first === undefined) return;
  const call: Call = (method, params) => link.call(method, params, { signal });
  try {
    await (attachment.own ? renewWindow : reattach)(link, attachment, first.processId, signal);
    if (attachment.holdsOutput) await reportReceived(followed, call);
    for (const process of followed) await process.catchUp(call);
  } catch (error) {
    const concernsProcess =
      error instanceof RpcError ||
      error instanceof InconsistentPageError ||
      (error instanceof ClientError && error.kind === 'protocol');
    if (!concernsProcess) throw error;
    failEach(followed, cannotFollow(first, error));
    // Sent after the recovery; the recovery does not wait for it. Other clients may need a shared process.
    const isOnlyUser = attachment.own && !attachment.shared;
    (isOnlyUser ? first.terminate() : first.detach()).catch(() => {});
  }
}

/** The last reports may have been lost with the connection. What this client has received needs no holding. */
async function reportReceived(processes: readonly RemoteProcess[], call: Call): Promise<void> {
  const seq = Math.min(...processes.map(({ revision }) => revision));
  await call('process/consumed', { processId: processes[0]!.processId, seq });
}

function failEach(processes: Iterable<RemoteProcess>, error: ClientError): void {
  for (const process of [...processes]) process.fail(error);
}

function noLongerAttached(process: RemoteProcess, { reason }: ProcessAttachment): ClientError {
  const isGone = reason === 'processGone';
  const why = isGone ? 'the server no longer keeps it' : 'its access has ended';
  return new ClientError(
    isGone ? 'notFound' : 'permissionDenied',
    `the client is no longer attached to ${shownProcess(process)}: ${why}`,
  );
}
