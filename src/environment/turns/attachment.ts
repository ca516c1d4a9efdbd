import type { CallOptions, EnvironmentInfo } from '../../client/backend.ts';
import { Deadline } from '../../client/deadline.ts';
import type { ClientError } from '../../client/errors.ts';
import type { Environment } from '../environment.ts';
import { toClientError } from '../remote/attempt.ts';

/** An environment that a thread wants to use, and how. */
export interface EnvironmentSelection {
  readonly environmentId: string;
  /** A `file:` URI of the executor. */
  readonly cwd: string;
  /** `file:` URIs of the executor. */
  readonly workspaceRoots?: readonly string[];
  readonly config?: SelectionConfig;
}

/**
 * Where the configuration for an environment comes from: the thread has it, or the environment's owner hands it over, sooner or
 * later. The environment is not ready before.
 */
export type SelectionConfig =
  | { readonly source: 'thread' }
  | { readonly source: 'owner'; readonly value: Promise<unknown> };

/** The shell of an executor. */
export type Shell = EnvironmentInfo['shell'];

/** What is known of an attachment. */
export type AttachmentState =
  | { readonly state: 'starting' }
  /** `shell` is null when the executor did not tell; `config` is null when the thread has it. */
  | { readonly state: 'ready'; readonly shell: Shell | null; readonly config: unknown }
  | { readonly state: 'failed'; readonly error: ClientError };

/**
 * A selection and the one handle it was resolved to. Whoever needs it waits for the same resolution; once it is ready or failed
 * it stays so.
 */
export class Attachment {
  readonly selection: EnvironmentSelection;
  readonly environment: Environment;
  readonly #letGo: () => void;
  #state: AttachmentState = STARTING;
  #settled: Promise<void>;
  #config: SelectionConfig;

  constructor(selection: EnvironmentSelection, environment: Environment) {
    this.selection = selection;
    this.environment = environment;
    this.#config = selection.config ?? FROM_THREAD;
    this.#letGo = environment.hold();
    this.#settled = this.#resolve();
  }

  get state(): AttachmentState {
    return this.#state;
  }

  /** Waits until it is ready or failed. */
  async settle(options?: CallOptions): Promise<AttachmentState> {
    const what = `starting environment '${this.environment.id}'`;
    const deadline = new Deadline(options);
    deadline.check(what);
    // A new configuration begins a new resolution, which the old one must not speak for.
    for (let settled = null; settled !== this.#settled; ) {
      settled = this.#settled;
      await deadline.wait(what, settled);
    }
    return this.#state;
  }

  /** Takes another configuration. One that failed stays failed: its environment is not tried again for this. */
  configure(config: SelectionConfig = FROM_THREAD): void {
    if (sameConfig(config, this.#config)) return;
    this.#config = config;
    if (this.#state.state === 'failed') return;
    this.#state = STARTING;
    this.#settled = this.#resolve();
  }

  /** Whether it serves this selection, whatever its configuration. */
  matches({ environmentId, cwd, workspaceRoots = [] }: EnvironmentSelection): boolean {
    const own = this.selection;
    const ownRoots = own.workspaceRoots ?? [];
    return (
      own.environmentId === environmentId &&
      own.cwd === cwd &&
      ownRoots.length === workspaceRoots.length &&
      ownRoots.every((root, index) => root === workspaceRoots[index])
    );
  }

  /** Nobody needs it for new turns any more. */
  release(): void {
    this.#letGo();
  }

  /** Never rejects: the result is the state. */
  async #resolve(): Promise<void> {
    const config = this.#config;
    const letGo = this.environment.hold();
    try {
      const [, value] = await Promise.all([
        this.environment.waitUntilReady(),
        config.source === 'owner' ? config.value : null,
      ]);
      const shell = await this.#shell();
      this.#conclude(config, { state: 'ready', shell, config: value });
    } catch (error) {
      this.#conclude(config, { state: 'failed', error: toClientError(error) });
    } finally {
      letGo();
    }
  }

  #conclude(config: SelectionConfig, state: AttachmentState): void {
    if (config === this.#config) this.#state = state;
  }

  /** An executor that does not describe itself can be used all the same. */
  async #shell(): Promise<Shell | null> {
    try {
      return (await this.environment.info()).shell;
    } catch {
      return null;
    }
  }
}

const STARTING: AttachmentState = { state: 'starting' };
const FROM_THREAD: SelectionConfig = { source: 'thread' };

function sameConfig(a: SelectionConfig, b: SelectionConfig): boolean {
  return a.source === 'owner' && b.source === 'owner' ? a.value === b.value : a.source === b.source;
}
