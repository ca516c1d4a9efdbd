import { randomUUID } from 'node:crypto';
import { ProcessManager, type ProcessManagerOptions } from '../../process/process-manager.ts';
import type { SessionLimits } from '../../process/resources/resource-limits.ts';
import { ShellStates } from '../../process/shell-state/shell-states.ts';
import type { Spawner } from '../../process/spawn/spawner.ts';
import type { BytesMessage } from '../../transport/transport.ts';
import { PolicyDecisions } from './policy-decisions.ts';
import { type PolicyRequestPeer, PolicyRequests } from './policy-requests.ts';
import type { EventSink } from './process-events.ts';
import type { HomeSession } from './process-identity.ts';
import type { SharedProcess } from './shared-process.ts';

/** The connection that a session is attached to. */
interface SessionPeer extends PolicyRequestPeer {
  /** Whether bulk output should wait. */
  readonly saturated: boolean;
  sendBulk: EventSink['sendBulk'];
  takesBytes?: EventSink['takesBytes'];
  /** Closes the connection soon if its client is gone. */
  probe(): void;
  /** Calls back when the client has received what was sent before that time. */
  confirmReceived(sentBeforeMs: number, confirmed: () => void): void;
}

/**
 * The processes of a client and the options it negotiated. A session outlives its connection: while it is detached, its processes
 * continue, their output is kept within the retention limits, and nothing is sent.
 */
export class Session implements HomeSession {
  readonly id = randomUUID();
  /** Its processes except detached ones, which outlive it. */
  readonly processes: ProcessManager;
  /** All processes that it started, by the ids that its client chose, in the order of their starts. */
  readonly shared = new Map<string, SharedProcess>();
  readonly ending = new Map<string, SharedProcess>();
  readonly shellStates: ShellStates;
  readonly policyRequests = new PolicyRequests(() => this.#peer);
  readonly policyDecisions = new PolicyDecisions(this);
  /** Resource limits of all its programs together; null is no limit. */
  readonly limits: SessionLimits | null;
  /** The access rights of its connections; the same for all of them. */
  readonly accessKey: string;
  /** The token or address of the client that created the session; empty if it is not known. */
  readonly client: string;
  /** The owner of its processes. */
  readonly owner: string;
  /** The id of the latest token that it was used with; null without one that can be revoked. */
  revocableId: string | null = null;
  /** The `clientName` of the latest `initialize`. */
  clientName = '';
  /** Whether the client asked for references and for `process/attachment`. */
  sharing = false;
  /** Whether the client asked for `server/draining`. */
  drainNotice = false;
  /** Whether the session began while the server drains: its client looks at programs, controls them and collects results. */
  refusesNewWork = false;
  /** How long the session outlives its connection; `Infinity` is until the server ends. */
  detachedTtlMs: number;
  /** Whether the client asked for `process/started` and `process/failed`. */
  lifecycleNotifications = false;
  #peer: SessionPeer | null = null;

  constructor(
    spawner: Spawner,
    options: ProcessManagerOptions,
    detachedTtlMs: number,
    accessKey: string,
    client: string,
    limits: SessionLimits | null,
    owner: string,
  ) {
    this.owner = owner;
    this.accessKey = accessKey;
    this.client = client;
    this.limits = limits;
    this.processes = new ProcessManager(spawner, options);
    this.shellStates = new ShellStates(spawner);
    this.detachedTtlMs = detachedTtlMs;
  }

  get attached(): boolean {
    return this.#peer !== null;
  }

  get saturated(): boolean {
    return this.#peer?.saturated ?? false;
  }

  attach(peer: SessionPeer): void {
    this.#peer = peer;
    this.processes.closed.attach(peer);
    this.policyDecisions.flush();
    for (const process of this.shared.values()) process.homeChanged();
  }

  /** Without a client no back-pressure applies, so the processes are resumed. */
  detach(): void {
    this.#peer = null;
    this.processes.closed.detach();
    for (const process of this.ending.values()) process.leaveHome();
    for (const process of this.shared.values()) process.homeChanged();
  }

  /** The connection no longer keeps up, or does so again. */
  flowChanged(): void {
    for (const process of this.ending.values()) process.homeFlowChanged();
    for (const process of this.shared.values()) process.homeFlowChanged();
  }

  /** Kills its processes, except detached ones, and cleans up after them. Resolves when that is done. */
  async close(): Promise<void> {
    this.detach();
    for (const process of this.shared.values()) if (process.lifetime === 'detached') process.leaveHome();
    await this.processes.close();
    this.limits?.close();
  }

  /** Checks whether the attached client is still alive, before a second one is refused. */
  probe(): void {
    this.#peer?.probe();
  }

  sendBulk(message: Uint8Array | BytesMessage, released?: () => void): void {
    this.#peer?.sendBulk(message, released);
  }

  takesBytes(length: number): boolean {
    return this.#peer?.takesBytes?.(length) ?? false;
  }
}
