import { unlessAborted } from '../base/abort.ts';
import { withTimeout } from '../base/with-timeout.ts';
import { RELEASE_DEADLINE_MS, SANDBOXED_START_ATTEMPTS } from './limits.ts';
import type { DenialDetector } from './managed-process.ts';
import type { Child, Spawner, SpawnSpec } from './spawn/spawner.ts';

/** Builds a sandbox for a program. Rejects when that is not possible; nothing has been started then. */
export type WrapInSandbox = (spec: SpawnSpec, signal: AbortSignal) => Promise<SandboxedLaunch>;

/** A sandbox that is ready for one program: either what to start instead of the program, or a child that is already started. */
export type SandboxedLaunch = SandboxLifecycle &
  ({ readonly spec: SpawnSpec } | { readonly spec: null; readonly child: Child });

interface SandboxLifecycle {
  readonly denialDetector: DenialDetector | null;
  /**
   * Resolves to whether the sandbox of a started child is complete, so that the child executes the program. After false the
   * program has not run and never will. Absent when nothing can fail after the spawn. When present it must be called: the
   * child may have been started before its instructions are known and waits for them. Rejects when the sandbox turns out to
   * be impossible, and with {@link SandboxOutdatedError} when the child would wait without end and can only be killed.
   */
  readonly entered?: (child: Child) => Promise<boolean>;
  /**
   * Cleans up after the program. Called once, when nothing runs in the sandbox any more or nothing was started. The exit event
   * waits for it. Null when there is nothing to clean up, which may only be known after `entered`.
   */
  readonly release: (() => Promise<void>) | null;
}

/** The sandbox became outdated before its child received any instructions. `reason` is reported if there is no further attempt. */
export class SandboxOutdatedError extends Error {
  override readonly name = 'SandboxOutdatedError';
  readonly reason: Error;

  constructor(reason: Error) {
    super(reason.message);
    this.reason = reason;
  }
}

/** A launch of the program itself, without a sandbox. */
export function unsandboxedLaunch(spec: SpawnSpec): SandboxedLaunch {
  return { spec, denialDetector: null, release: null };
}

/** A started program and the sandbox it runs in, if any. */
export interface StartedProgram {
  readonly child: Child;
  readonly launch: SandboxedLaunch | null;
}

/**
 * Starts a program, in a sandbox if one is requested. Other processes may replace files while the sandbox is built. Then the
 * sandbox is built again, and the child of the failed attempt is discarded. The result of the last attempt stands, whatever it
 * is: the output of its child says what went wrong. Rejects with the reason of `signal` when that aborts; nothing is left then.
 */
export async function startProgram(
  spec: SpawnSpec,
  wrapInSandbox: WrapInSandbox | null,
  spawner: Pick<Spawner, 'spawn'>,
  signal: AbortSignal,
): Promise<StartedProgram> {
  if (wrapInSandbox === null) return { child: await spawnChild(spawner, spec, signal), launch: null };
  for (let attempt = 1; ; attempt++) {
    const launch = await wrapInSandbox(spec, signal);
    const child = await enterSandbox(launch, spawner, signal, attempt === SANDBOXED_START_ATTEMPTS);
    if (child !== null) return { child, launch };
  }
}

/** The child of a launch; spawns it unless it is already started. */
export async function spawnLaunch(launch: SandboxedLaunch, spawner: Pick<Spawner, 'spawn'>): Promise<Child> {
  return launch.spec === null ? launch.child : await spawner.spawn(launch.spec);
}

/** Cleans up after a sandboxed program, within a deadline. Leftovers carry a mark and are removed when the same path is used again. */
export async function releaseSandbox({ release }: Pick<SandboxedLaunch, 'release'>): Promise<void> {
  if (release === null) return;
  await withTimeout(
    release().catch(() => {}),
    RELEASE_DEADLINE_MS,
  );
}

/** Kills a child whose output and exit are never reported. */
export async function discardChild(child: Child): Promise<void> {
  for (const source of child.outputs) source.destroy();
  child.stdin?.destroy();
  await child.killTree();
  child.release();
}

/** Spawns and rejects with the reason of `signal` once that aborts; a child that was spawned in the meantime is killed. */
async function spawnChild(
  spawner: Pick<Spawner, 'spawn'>,
  spec: SpawnSpec,
  signal: AbortSignal,
): Promise<Child> {
  let child: Child;
  try {
    child = await spawner.spawn(spec, signal);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  }
  if (!signal.aborted) return child;
  await discardChild(child);
  throw signal.reason;
}

/** Spawns the child of a sandbox and waits until it has entered. Null when the sandbox has to be built again; it is released then. */
async function enterSandbox(
  launch: SandboxedLaunch,
  spawner: Pick<Spawner, 'spawn'>,
  signal: AbortSignal,
  isLastAttempt: boolean,
): Promise<Child | null> {
  let child: Child | null = null;
  try {
    child = launch.spec === null ? launch.child : await spawnChild(spawner, launch.spec, signal);
    const entered = launch.entered === undefined || (await hasEntered(launch.entered, child, signal));
    signal.throwIfAborted();
    if (entered || isLastAttempt) return child;
  } catch (error) {
    if (child !== null) await discardChild(child);
    await releaseSandbox(launch);
    if (!(error instanceof SandboxOutdatedError)) throw error;
    if (isLastAttempt) throw error.reason;
    return null;
  }
  await discardChild(child);
  await releaseSandbox(launch);
  return null;
}

/** Stops waiting once the start is cancelled: a child that hangs in the kernel may never report anything. */
async function hasEntered(
  entered: NonNullable<SandboxedLaunch['entered']>,
  child: Child,
  signal: AbortSignal,
): Promise<boolean> {
  return !signal.aborted && (await unlessAborted(entered(child), signal, () => false));
}
