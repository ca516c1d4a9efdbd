import { createHash } from 'node:crypto';
import { childEnvironment } from '../env-policy.ts';
import { SpawnError, type Spawner, type SpawnSpec } from '../spawn/spawner.ts';
import type { WrapInSandbox } from '../start-program.ts';
import { captureLoginState } from './capture.ts';
import { MAX_SESSION_STATE_BYTES, MAX_STATES } from './limits.ts';
import type { LoginCommand } from './login-command.ts';
import type { LoginState } from './login-state.ts';
import { restoredSpec } from './restore.ts';

/** Where and how a login command runs. */
export interface LoginContext {
  readonly spec: SpawnSpec;
  /** Any value that is equal for equal sandboxes. */
  readonly sandbox: unknown;
  readonly wrapInSandbox: WrapInSandbox | null;
}

/**
 * The states of the login shells of one session. The first command waits until a login shell has read the user's files. Later and
 * concurrent commands of the same kind get the resulting state and start without a login. A shell that fails is not tried again;
 * its commands run unchanged. Changes of the user's files take effect in another scope or session.
 */
export class ShellStates {
  readonly #spawner: Spawner;
  /** By key, the least recently used first. */
  readonly #captures = new Map<string, Capture>();

  constructor(spawner: Spawner) {
    this.#spawner = spawner;
  }

  /** What to start for a login command: with its state restored, or unchanged when there is no state. */
  async restored(command: LoginCommand, context: LoginContext, signal: AbortSignal): Promise<SpawnSpec> {
    const { spec, wrapInSandbox } = context;
    const state = await this.#captureOf(command, context).join(signal);
    if (state === null || signal.aborted) return spec;
    // Only the native spawner has terminals and can pass descriptors. In a sandbox /dev/fd may be hidden.
    const passing = wrapInSandbox === null && this.#spawner.pty.available ? 'descriptor' : 'variables';
    return restoredSpec(spec, command, state, passing) ?? spec;
  }

  #captureOf(command: LoginCommand, context: LoginContext): Capture {
    const key = keyOf(command, context);
    const known = this.#captures.get(key);
    this.#captures.delete(key);
    const capture = known ?? new Capture((signal) => this.#capture(command, context, signal));
    this.#captures.set(key, capture);
    if (known === undefined) {
      if (this.#captures.size > MAX_STATES) this.#forgetOldest();
      capture.onEnd((state) => this.#ended(key, capture, state));
    }
    return capture;
  }

  async #capture(
    command: LoginCommand,
    context: LoginContext,
    signal: AbortSignal,
  ): Promise<LoginState | null> {
    const { env, envPolicy: policy } = command.program;
    // The identifiers of the first command must not reach the others.
    const ownEnv = childEnvironment({ env, policy, metadata: null }, process.env);
    const spec = { ...context.spec, env: ownEnv };
    const { wrapInSandbox } = context;
    const state = await captureLoginState(
      command.kind,
      spec,
      { spawner: this.#spawner, wrapInSandbox },
      signal,
    );
    return state && { ...state, exported: withoutGiven(state.exported, env) };
  }

  #ended(key: string, capture: Capture, state: LoginState | null | undefined): void {
    // A cancelled or failed start says nothing about the next attempt.
    if (state === undefined && this.#captures.get(key) === capture) this.#captures.delete(key);
    let bytes = [...this.#captures.values()].reduce((sum, one) => sum + one.bytes, 0);
    while (bytes > MAX_SESSION_STATE_BYTES) bytes -= this.#forgetOldest();
  }

  #forgetOldest(): number {
    const [oldest] = this.#captures;
    if (oldest === undefined) return 0;
    this.#captures.delete(oldest[0]);
    return oldest[1].bytes;
  }
}

/** A login shell that is being captured, and the commands that wait for it. */
class Capture {
  readonly #cancelled = new AbortController();
  readonly #result: Promise<LoginState | null | undefined>;
  #waiting = 0;
  #bytes = 0;

  constructor(run: (signal: AbortSignal) => Promise<LoginState | null>) {
    this.#result = run(this.#cancelled.signal).then(
      (state) => {
        this.#bytes = state?.bytes ?? 0;
        return state;
      },
      (error: unknown) => {
        if (this.#cancelled.signal.aborted || error instanceof SpawnError) return undefined;
        throw error;
      },
    );
    this.#result.catch(() => {});
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Calls back with undefined when the capture did not take context. */
  onEnd(listener: (state: LoginState | null | undefined) => void): void {
    this.#result.then(listener, () => listener(undefined));
  }

  /** The state, or null when there is none. Cancels the capture when no command waits for it any more. */
  async join(signal: AbortSignal): Promise<LoginState | null> {
    if (signal.aborted) return null;
    const stopWaiting = () => {
      this.#waiting--;
      if (this.#waiting === 0) this.#cancelled.abort();
    };
    this.#waiting++;
    signal.addEventListener('abort', stopWaiting, { once: true });
    try {
      return (await this.#result) ?? null;
    } finally {
      signal.removeEventListener('abort', stopWaiting);
    }
  }
}

/** A digest, because policies may be long. */
function keyOf({ kind, scopeId, program }: LoginCommand, { spec, sandbox }: LoginContext): string {
  const parts = [kind, scopeId, program.argv[0], spec.cwd, program.envPolicy, sandbox];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}

/** Drops variables that only the first command's request contained and its shell passed on unchanged. */
function withoutGiven(
  exported: Readonly<Record<string, string>>,
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(Object.entries(exported).filter(([name, value]) => given[name] !== value));
}
