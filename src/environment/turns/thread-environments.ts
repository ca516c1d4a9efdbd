import type { CallOptions } from '../../client/backend.ts';
import { Listeners } from '../../client/listeners.ts';
import type { ConnectionState, Environment } from '../environment.ts';
import { Attachment, type EnvironmentSelection, type SelectionConfig } from './attachment.ts';
import { StepSnapshot } from './step-snapshot.ts';

/** Finds the handle that has an id now. */
export interface EnvironmentRegistry {
  get(id: string): Environment | null;
}

/** Whether a selected environment is connected, and if not, why. */
export interface ConnectionEvent {
  readonly environmentId: string;
  readonly connected: boolean;
  readonly reason: string | null;
}

export interface TurnOptions extends CallOptions {
  /** Whether to wait until every environment is ready or failed; default true. Otherwise those that start are recorded as such. */
  readonly wait?: boolean;
}

/**
 * The environments that one thread has selected. Each is resolved to a handle once and keeps it; at the beginning of a turn a
 * failed one is resolved anew, and one whose id was given to another handle moves over as soon as that one is ready, or at once
 * when its own does not work.
 */
export class ThreadEnvironments {
  readonly #registry: EnvironmentRegistry;
  readonly #warn: (message: string) => void;
  readonly #listeners = new Listeners<[ConnectionEvent]>();
  #selections: readonly EnvironmentSelection[] = [];
  #attached = new Map<string, Attached>();

  /** `warn` hears of selections that name no environment. */
  constructor(registry: EnvironmentRegistry, warn: (message: string) => void = () => {}) {
    this.#registry = registry;
    this.#warn = warn;
  }

  /**
   * Replaces the selection; the next turn uses it. Of several for one environment the first counts. An environment that nobody
   * knows is left out until a turn finds it.
   */
  select(selections: readonly EnvironmentSelection[]): void {
    const byId = new Map<string, EnvironmentSelection>();
    for (const selection of selections) {
      ignoreFailure(selection.config);
      if (!byId.has(selection.environmentId)) byId.set(selection.environmentId, selection);
    }
    this.#selections = [...byId.values()];
    for (const { environmentId } of this.#selections) {
      if (this.#registry.get(environmentId) === null && !this.#attached.has(environmentId)) {
        this.#warn(`the selected environment '${environmentId}' does not exist`);
      }
    }
    this.#reconcile({ patient: false });
  }

  /** Gives a selected environment another configuration. A failed one is not tried again for this. */
  configure(environmentId: string, config: SelectionConfig): void {
    ignoreFailure(config);
    this.#selections = this.#selections.map((selection) =>
      selection.environmentId === environmentId ? { ...selection, config } : selection,
    );
    this.#attached.get(environmentId)?.attachment.configure(config);
  }

  /** Begins a turn. Failures do not reject it: a failed environment is just not in it. */
  async beginTurn({ wait = true, ...options }: TurnOptions = {}): Promise<StepSnapshot> {
    this.#reconcile({ patient: wait });
    const attachments = [...this.#attached.values()].map(({ attachment }) => attachment);
    if (wait) await Promise.all(attachments.map((attachment) => attachment.settle(options)));
    return new StepSnapshot(attachments);
  }

  /** Tells how the selected environments are connected now, and every change. Returns what ends it. */
  watchConnections(listener: (event: ConnectionEvent) => void): () => void {
    const stop = this.#listeners.add(listener);
    for (const { attachment } of this.#attached.values()) {
      listener({ environmentId: attachment.environment.id, ...attachment.environment.connection });
    }
    return stop;
  }

  /** Lets go of everything; turns that run keep what they have. */
  dispose(): void {
    this.#selections = [];
    this.#reconcile({ patient: false });
  }

  /** Brings the attachments in line with the selections and the registry. One that is patient waits for new attachments anyway. */
  #reconcile({ patient }: { readonly patient: boolean }): void {
    const previous = this.#attached;
    this.#attached = new Map();
    for (const selection of this.#selections) {
      const attached = this.#attachedFor(selection, previous.get(selection.environmentId), patient);
      if (attached !== null) this.#attached.set(selection.environmentId, attached);
    }
    for (const [id, attached] of previous) {
      if (this.#attached.get(id) !== attached) attached.detach();
    }
  }

  #attachedFor(
    selection: EnvironmentSelection,
    existing: Attached | undefined,
    patient: boolean,
  ): Attached | null {
    const registered =
      this.#registry.get(selection.environmentId) ?? existing?.attachment.environment ?? null;
    if (registered === null) return null;
    if (existing === undefined || !isReusable(existing.attachment, selection)) {
      return this.#attach(new Attachment(selection, registered));
    }
    existing.attachment.configure(selection.config);
    if (registered === existing.attachment.environment) return existing;
    const successor = existing.prepareSuccessor(selection, registered);
    const ready = successor.state.state === 'ready' || (patient && registered.readiness?.ready);
    if (!ready && isUsable(existing.attachment)) return existing;
    existing.leaveSuccessor();
    return this.#attach(successor);
  }

  #attach(attachment: Attachment): Attached {
    const { id } = attachment.environment;
    return new Attached(attachment, (state) => this.#listeners.emit({ environmentId: id, ...state }));
  }
}

/** An attachment in use, and the one that is to follow it when the id has been given to another handle. */
class Attached {
  readonly attachment: Attachment;
  readonly #stopWatching: () => void;
  #successor: Attachment | null = null;

  /** `changed` hears of every change of the connection from now on. */
  constructor(attachment: Attachment, changed: (state: ConnectionState) => void) {
    this.attachment = attachment;
    let replayed = false;
    this.#stopWatching = attachment.environment.watchConnection((state) => {
      if (replayed) changed(state);
    });
    replayed = true;
  }

  /** The attachment to the new handle. It is begun now unless it has been, and again when it has failed. */
  prepareSuccessor(selection: EnvironmentSelection, environment: Environment): Attachment {
    const begun = this.#successor;
    if (begun?.environment === environment && begun.state.state !== 'failed') {
      begun.configure(selection.config);
      return begun;
    }
    begun?.release();
    this.#successor = new Attachment(selection, environment);
    return this.#successor;
  }

  /** Whoever prepared the successor owns it from now on. */
  leaveSuccessor(): void {
    this.#successor = null;
  }

  detach(): void {
    this.#stopWatching();
    this.attachment.release();
    this.#successor?.release();
  }
}

function isReusable(attachment: Attachment, selection: EnvironmentSelection): boolean {
  return attachment.state.state !== 'failed' && attachment.matches(selection);
}

/** Whether it was resolved and its handle can still lead somewhere; one that recovers can. */
function isUsable({ state, environment }: Attachment): boolean {
  return state.state === 'ready' && environment.readiness?.ready !== false;
}

/** A configuration that fails while nobody waits for it harms nobody. */
function ignoreFailure(config: SelectionConfig | undefined): void {
  if (config?.source === 'owner') config.value.catch(() => {});
}
