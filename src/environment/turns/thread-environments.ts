import { Listeners, notify } from '../../base/listeners.ts';
import type { CallOptions } from '../../client/backend.ts';
import type { ConnectionState, Environment } from '../environment.ts';
import { Attachment, type EnvironmentSelection, type SelectionConfig } from './attachment.ts';
import { StepSnapshot } from './step-snapshot.ts';

/** Finds the current handle of an id. */
export interface EnvironmentRegistry {
  get(id: string): Environment | null;
}

/** Whether a selected environment is connected; when not, the reason. */
export interface ConnectionEvent {
  readonly environmentId: string;
  readonly connected: boolean;
  readonly reason: string | null;
}

export interface TurnOptions extends CallOptions {
  /** Whether to wait until every environment is ready or failed. Default: true. Otherwise the step may have starting environments. */
  readonly wait?: boolean;
}

/**
 * The environments that one thread selected. Each is resolved to a handle once and keeps it. The start of a turn resolves failed
 * environments again. It also moves an environment to the handle that replaced its own, as soon as the new handle is ready, or
 * immediately when the old one does not work.
 */
export class ThreadEnvironments {
  readonly #registry: EnvironmentRegistry;
  readonly #warn: (message: string) => void;
  readonly #listeners = new Listeners<[ConnectionEvent]>('watchConnections');
  #selections: readonly EnvironmentSelection[] = [];
  #attached = new Map<string, Attached>();

  /** `warn` is called for selections without an environment. */
  constructor(registry: EnvironmentRegistry, warn: (message: string) => void = () => {}) {
    this.#registry = registry;
    this.#warn = warn;
  }

  /**
   * Replaces the selection; the next turn uses it. The first selection of an environment wins. An unknown environment is skipped
   * until a turn finds it.
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
    this.#reconcile({ waits: false });
  }

  /** Changes the configuration of a selected environment. A failed one is not retried. */
  configure(environmentId: string, config: SelectionConfig): void {
    ignoreFailure(config);
    this.#selections = this.#selections.map((selection) =>
      selection.environmentId === environmentId ? { ...selection, config } : selection,
    );
    this.#attached.get(environmentId)?.attachment.configure(config);
  }

  /** Begins a turn. A failed environment does not reject it, but is not part of the turn. */
  async beginTurn({ wait = true, ...options }: TurnOptions = {}): Promise<StepSnapshot> {
    this.#reconcile({ waits: wait });
    const attachments = [...this.#attached.values()].map(({ attachment }) => attachment);
    if (wait) await Promise.all(attachments.map((attachment) => attachment.settle(options)));
    return new StepSnapshot(attachments);
  }

  /** Calls the listener with the connection states of the selected environments, now and on every change. Returns a function that removes it. */
  watchConnections(listener: (event: ConnectionEvent) => void): () => void {
    const stop = this.#listeners.add(listener);
    for (const { attachment } of this.#attached.values()) {
      const { id, connection } = attachment.environment;
      notify('watchConnections', listener, { environmentId: id, ...connection });
    }
    return stop;
  }

  /** Releases all environments. Running turns keep theirs. */
  dispose(): void {
    this.#selections = [];
    this.#reconcile({ waits: false });
  }

  /** Updates the attachments to the selections and the registry. `waits` means that the caller waits for new attachments anyway. */
  #reconcile({ waits }: { readonly waits: boolean }): void {
    const previous = this.#attached;
    this.#attached = new Map();
    for (const selection of this.#selections) {
      const attached = this.#attachedFor(selection, previous.get(selection.environmentId), waits);
      if (attached !== null) this.#attached.set(selection.environmentId, attached);
    }
    for (const [id, attached] of previous) {
      if (this.#attached.get(id) !== attached) attached.detach();
    }
  }

  #attachedFor(
    selection: EnvironmentSelection,
    existing: Attached | undefined,
    waits: boolean,
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
    const ready = successor.state.state === 'ready' || (waits && registered.readiness?.ready);
    if (!ready && isUsable(existing.attachment)) return existing;
    existing.leaveSuccessor();
    return this.#attach(successor);
  }

  #attach(attachment: Attachment): Attached {
    const { id } = attachment.environment;
    return new Attached(attachment, (state) => this.#listeners.emit({ environmentId: id, ...state }));
  }
}

/** An attachment in use, and its successor when another handle has the id. */
class Attached {
  readonly attachment: Attachment;
  readonly #stopWatching: () => void;
  #successor: Attachment | null = null;

  /** `changed` is called on every change of the connection from now on. */
  constructor(attachment: Attachment, changed: (state: ConnectionState) => void) {
    this.attachment = attachment;
    let replayed = false;
    this.#stopWatching = attachment.environment.watchConnection((state) => {
      if (replayed) changed(state);
    });
    replayed = true;
  }

  /** Returns the attachment to the new handle. Creates it if necessary, and again after a failure. */
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

  /** Hands the successor over to the caller. */
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

/** Whether it is resolved and its handle works or recovers. */
function isUsable({ state, environment }: Attachment): boolean {
  return state.state === 'ready' && environment.readiness?.ready !== false;
}

/** Prevents an unhandled rejection when a configuration fails before anything waits for it. */
function ignoreFailure(config: SelectionConfig | undefined): void {
  if (config?.source === 'owner') config.value.catch(() => {});
}
