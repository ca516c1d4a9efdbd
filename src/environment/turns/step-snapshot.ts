import type { CallOptions } from '../../client/backend.ts';
import { ClientError } from '../../client/errors.ts';
import type { Environment } from '../environment.ts';
import type { Attachment, EnvironmentSelection, Shell } from './attachment.ts';

/** An environment that a step can use. */
export interface ReadyEnvironment {
  readonly state: 'ready';
  readonly environmentId: string;
  /** The handle that the step uses, even if another handle has the id now. */
  readonly environment: Environment;
  readonly cwd: string;
  readonly workspaceRoots: readonly string[];
  readonly shell: Shell | null;
  /** The owner's configuration; null when the thread's own configuration applies. */
  readonly config: unknown;
}

/** An environment that may become usable in a later step. */
export interface StartingEnvironment {
  readonly state: 'starting';
  readonly environmentId: string;
  readonly cwd: string;
  readonly workspaceRoots: readonly string[];
}

export type StepEnvironment = ReadyEnvironment | StartingEnvironment;

/** The part of an environment's state that a model may see. */
export interface VisibleState {
  readonly environmentId: string;
  readonly state: 'ready' | 'starting' | 'unavailable';
}

/** The environments of one step, as of its start. It never changes; {@link refresh} creates the next one. */
export class StepSnapshot {
  /** In the order of selection, without failed ones. */
  readonly environments: readonly StepEnvironment[];
  /** All selected environments. */
  readonly states: readonly VisibleState[];
  readonly #attachments: readonly Attachment[];

  /** @internal Created by ThreadEnvironments. */
  constructor(attachments: readonly Attachment[]) {
    this.#attachments = attachments;
    this.environments = attachments.flatMap((attachment) => stepEnvironment(attachment) ?? []);
    this.states = attachments.map((attachment) => ({
      environmentId: attachment.environment.id,
      state: attachment.state.state === 'failed' ? 'unavailable' : attachment.state.state,
    }));
  }

  /** The default environment: the first ready one. */
  get primary(): ReadyEnvironment | null {
    return this.#ready[0] ?? null;
  }

  /** The handle of each ready environment by id, and null for each that is starting. */
  get captured(): ReadonlyMap<string, Environment | null> {
    return new Map(
      this.environments.map((each) => [each.environmentId, each.state === 'ready' ? each.environment : null]),
    );
  }

  /** Returns the environment of a tool call, or the primary one. The error message is for the model. */
  choose(environmentId?: string): ReadyEnvironment {
    const found =
      environmentId === undefined
        ? this.primary
        : this.#ready.find((candidate) => candidate.environmentId === environmentId);
    if (found) return found;
    const ids = this.#ready.map((each) => each.environmentId);
    if (ids.length === 0) throw new ClientError('invalidInput', 'no execution environment is available');
    throw new ClientError('invalidInput', `environment '${environmentId}' is not available`, {
      hint: `use one of ${ids.join(', ')}`,
    });
  }

  /** Creates the next step of the same turn. It has the environments that became ready, but not later selections. */
  refresh(): StepSnapshot {
    return new StepSnapshot(this.#attachments);
  }

  /** Waits for an environment of this turn, for the tool of that name. The error messages are for the model. */
  async waitForEnvironment(environmentId: string, options?: CallOptions): Promise<VisibleState> {
    const attachment = this.#attachments.find(({ environment }) => environment.id === environmentId);
    if (attachment === undefined) {
      throw new ClientError('invalidInput', `environment '${environmentId}' is not part of this turn`, {
        hint: `its environments are ${this.states.map((each) => each.environmentId).join(', ') || 'none'}`,
      });
    }
    const state = await attachment.settle(options);
    if (state.state === 'failed') {
      throw new ClientError('disconnected', `environment '${environmentId}' failed: ${state.error.message}`, {
        hint: 'continue without it',
        cause: state.error,
      });
    }
    return { environmentId, state: 'ready' };
  }

  get #ready(): readonly ReadyEnvironment[] {
    return this.environments.filter((each) => each.state === 'ready');
  }
}

function stepEnvironment({ environment, selection, state }: Attachment): StepEnvironment | null {
  if (state.state === 'failed') return null;
  const settings = settingsOf(selection);
  return state.state === 'starting' ? { ...state, ...settings } : { ...state, ...settings, environment };
}

function settingsOf({ environmentId, cwd, workspaceRoots = [] }: EnvironmentSelection) {
  return { environmentId, cwd, workspaceRoots };
}
