import type { CallOptions, EnvironmentInfo } from '../../client/backend.ts';
import { Deadline } from '../../client/connection/call-limit.ts';
import type { ClientError } from '../../client/errors.ts';
import type { Environment } from '../environment.ts';
import { toClientError } from '../remote/attempt.ts';

/** An environment that a thread selected, and its settings. */
export interface EnvironmentSelection {
  readonly environmentId: string;
  /** A `file:` URI of the executor. */
  readonly cwd: string;
  /** `file:` URIs of the executor. */
  readonly workspaceRoots?: readonly string[];
  readonly config?: SelectionConfig;
}

/**
 * The source of an environment's configuration: the thread, or the environment's owner, who provides it later. The environment is
 * not ready before.
 */
export type SelectionConfig =
  | { readonly source: 'thread' }
  | { readonly source: 'owner'; readonly value: Promise<unknown> };

/** The shell of an executor. */
export type Shell = EnvironmentInfo['shell'];

/** The state of an attachment. */
export type AttachmentState =
  | { readonly state: 'starting' }
  /** `shell` is null when the executor does not report it. `config` is null when the thread provides it. */
  | { readonly state: 'ready'; readonly shell: Shell | null; readonly config: unknown }
  | { readonly state: 'failed'; readonly error: ClientError };

/**
 * A selection and the handle that it is resolved to. All callers wait for the same resolution. The states ready and failed are final.
 */
export class Attachment {
  readonly selection: EnvironmentSelection;
  readonly environment: Environment;
  readonly #release: () => void;
  #state: AttachmentState = STARTING;
  #settled: Promise<void>;
  #config: SelectionConfig;

  constructor(selection: EnvironmentSelection, environment: Environment) {
    this.selection = selection;
    this.environment = environment;
    this.#config = selection.config ?? FROM_THREAD;
    this.#release = environment.hold();
    this.#settled = this.#resolve();
  }

  get state(): AttachmentState {
    return this.#state;
  }

  /** Waits until the attachment is ready or failed. */
  async settle(options?: CallOptions): Promise<AttachmentState> {
    const what = `starting environment '${this.environment.id}'`;
    const deadline = new Deadline(options);
    deadline.check(what);
    // A new configuration starts a new resolution; the result of the old one no longer counts.
    for (let settled = null; settled !== this.#settled; ) {
      settled = this.#settled;
      await deadline.wait(what, settled);
    }
    return this.#state;
  }

  /** Changes the configuration. A failed attachment stays failed: a new configuration does not retry its environment. */
  configure(config: SelectionConfig = FROM_THREAD): void {
    if (sameConfig(config, this.#config)) return;
    this.#config = config;
    if (this.#state.state === 'failed') return;
    this.#state = STARTING;
    this.#settled = this.#resolve();
  }

  /** Whether it matches this selection, apart from the configuration. */
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

  /** Releases the environment: no new turn uses the attachment. */
  release(): void {
    this.#release();
  }

  /** Never rejects: a failure is a state. */
  async #resolve(): Promise<void> {
    const config = this.#config;
    const release = this.environment.hold();
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
      release();
    }
  }

  #conclude(config: SelectionConfig, state: AttachmentState): void {
    if (config === this.#config) this.#state = state;
  }

  /** An executor without a description can still be used. */
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
