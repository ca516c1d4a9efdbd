import { createHash } from 'node:crypto';
import { childEnvironment } from '../env-policy.ts';
import { SpawnError, type Spawner, type SpawnSpec } from '../spawn/spawner.ts';
import { unsandboxedLaunch, type WrapInSandbox } from '../start-program.ts';
import { captureLoginState } from './capture.ts';
import { MAX_SESSION_STATE_BYTES, MAX_STATES } from './limits.ts';
import type { LoginCommand } from './login-command.ts';
import type { LoginState } from './login-state.ts';
import { restoredSpec } from './restore.ts';

/** Where and how a login command is about to run. */
export interface LoginPlace {
  readonly spec: SpawnSpec;
  /** What the command is restricted to, in any words that are equal for equal sandboxes. */
  readonly sandbox: unknown;
  readonly wrapInSandbox: WrapInSandbox | null;
}

/**
 * The states of the login shells of one session. The first command of its kind waits until a login shell has read the user's files;
 * those that follow, or come meanwhile, get the state in which that ended and start without. A shell that does not get ready is not
 * tried again: its commands run as they are. What the user changes in those files is seen in another scope or session.
 */
export class ShellStates {
  readonly #spawner: Spawner;
  /** By key, the one that was used longest ago first. */
  readonly #captures = new Map<string, Capture>();

  constructor(spawner: Spawner) {
    this.#spawner = spawner;
  }

  /** What to start for a login command: with its state restored, or as it is when there is none. */
  async restored(command: LoginCommand, place: LoginPlace, signal: AbortSignal): Promise<SpawnSpec> {
    const { spec, wrapInSandbox } = place;
    const state = await this.#captureOf(command, place).join(signal);
    if (state === null || signal.aborted) return spec;
    // Terminals and descriptors are both what only native starts have to give; and a sandbox may hide where descriptors are found.
    const passing = wrapInSandbox === null && this.#spawner.pty.available ? 'descriptor' : 'variables';
    return restoredSpec(spec, command, state, passing) ?? spec;
  }

  #captureOf(command: LoginCommand, place: LoginPlace): Capture {
    const key = keyOf(command, place);
    const known = this.#captures.get(key);
    this.#captures.delete(key);
    const capture = known ?? new Capture((signal) => this.#capture(command, place, signal));
    this.#captures.set(key, capture);
    if (known === undefined) {
      if (this.#captures.size > MAX_STATES) this.#forgetOldest();
      capture.onEnd((state) => this.#ended(key, capture, state));
    }
    return capture;
  }

  async #capture(command: LoginCommand, place: LoginPlace, signal: AbortSignal): Promise<LoginState | null> {
    const { env, envPolicy: policy } = command.program;
    // Identifiers of the first command must not reach the others.
    const ownEnv = childEnvironment({ env, policy, metadata: null }, process.env);
    const spec = { ...place.spec, env: ownEnv };
    const { wrapInSandbox } = place;
    const state = await captureLoginState(
      command.kind,
      spec,
      { spawner: this.#spawner, wrapInSandbox },
      signal,
    );
    return state && { ...state, exported: withoutGiven(state.exported, env) };
  }

  #ended(key: string, capture: Capture, state: LoginState | null | undefined): void {
    // It was given up, or could not be begun: that says nothing about the next time.
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

/** One login shell that gets ready, and whoever waits for it. */
class Capture {
  readonly #given = new AbortController();
  readonly #result: Promise<LoginState | null | undefined>;
  #waiting = 0;
  #bytes = 0;

  constructor(run: (signal: AbortSignal) => Promise<LoginState | null>) {
    this.#result = run(this.#given.signal).then(
      (state) => {
        this.#bytes = state?.bytes ?? 0;
        return state;
      },
      (error: unknown) => {
        if (this.#given.signal.aborted || error instanceof SpawnError) return undefined;
        throw error;
      },
    );
    this.#result.catch(() => {});
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Undefined is a capture that did not take place. */
  onEnd(listener: (state: LoginState | null | undefined) => void): void {
    this.#result.then(listener, () => listener(undefined));
  }

  /** The state, or null when there is none. It is given up when nobody waits for it any more. */
  async join(signal: AbortSignal): Promise<LoginState | null> {
    if (signal.aborted) return null;
    const leave = () => {
      this.#waiting--;
      if (this.#waiting === 0) this.#given.abort();
    };
    this.#waiting++;
    signal.addEventListener('abort', leave, { once: true });
    try {
      return (await this.#result) ?? null;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }
}

/** Policies may be long, so that their digest is kept. */
function keyOf({ kind, scopeId, program }: LoginCommand, { spec, sandbox }: LoginPlace): string {
  const parts = [kind, scopeId, program.argv[0], spec.cwd, program.envPolicy, sandbox];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}

/** What only the first command's request brought, and its shell passed on unchanged, is not for others. */
function withoutGiven(
  exported: Readonly<Record<string, string>>,
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(Object.entries(exported).filter(([name, value]) => given[name] !== value));
}

/** What a command and its login shell run inside of; null where that is nothing. */
export interface LoginSandbox {
  /** In any words that are equal for equal sandboxes. */
  readonly description: unknown;
  readonly forShell: WrapInSandbox | null;
  readonly forCommand: WrapInSandbox | null;
}

/** Gives a command its login shell's state before it is sandboxed. */
export function afterLogin(
  states: Pick<ShellStates, 'restored'>,
  login: LoginCommand,
  { description, forShell, forCommand }: LoginSandbox,
): WrapInSandbox {
  return async (spec, signal) => {
    const place = { spec, sandbox: description, wrapInSandbox: forShell };
    const restored = await states.restored(login, place, signal);
    return (await forCommand?.(restored, signal)) ?? unsandboxedLaunch(restored);
  };
}
