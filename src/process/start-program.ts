import { unlessAborted } from '../base/abort.ts';
import { withTimeout } from '../base/with-timeout.ts';
import { RELEASE_DEADLINE_MS, SANDBOXED_START_ATTEMPTS } from './limits.ts';
import type { DenialJudge } from './managed-process.ts';
import type { Child, SpawnSpec } from './spawn/spawner.ts';

/** Puts a program into a sandbox: what to start in its place. Rejects when that is not possible; then nothing is started. */
export type WrapInSandbox = (spec: SpawnSpec, signal: AbortSignal) => Promise<SandboxedLaunch>;

/** A sandbox made ready for one program: what to start in the program's place, or what has been started already. */
export type SandboxedLaunch = SandboxLifecycle &
  ({ readonly spec: SpawnSpec } | { readonly spec: null; readonly child: Child });

/** A sandbox turned out to be outdated before the child was told anything. `reason` is what to say when it is not made anew. */
export class SandboxOutdatedError extends Error {
  override readonly name = 'SandboxOutdatedError';
  readonly reason: Error;

  constructor(reason: Error) {
    super(reason.message);
    this.reason = reason;
  }
}

interface SandboxLifecycle {
  readonly judge: DenialJudge | null;
  /**
   * Whether the sandbox of a child that has been started is complete, so that the child executes the program. When not, the program
   * has not been executed and never will be. Absent when nothing can come in between. Must be called where it is there: a child may
   * have been started before it is known what to tell it. Rejects when the sandbox turns out to be impossible, and with
   * SandboxOutdatedError when the child can only be ended: it would wait for ever.
   */
  readonly entered?: (child: Child) => Promise<boolean>;
  /**
   * Called once, when nothing runs in it any more or nothing was started; null when there is nothing to do then, which may show when the
   * child has entered. The exit of the program is reported when it is done.
   */
  readonly release: (() => Promise<void>) | null;
}

/** A program that has been started, and what it was put into. */
export interface StartedProgram {
  readonly child: Child;
  readonly launch: SandboxedLaunch | null;
}

/**
 * Starts a program in a sandbox, if there is to be one. Files may be exchanged by others while a sandbox is built; then it is
 * made anew, and of the child that was to run in it nothing is heard. The last of a few attempts counts however it ends: what the
 * child says about it is what went wrong. Rejects with the reason of `signal` when that aborts; nothing is left then.
 */
export async function startProgram(
  spec: SpawnSpec,
  wrapInSandbox: WrapInSandbox | null,
  spawn: (spec: SpawnSpec) => Promise<Child>,
  signal: AbortSignal,
): Promise<StartedProgram> {
  if (wrapInSandbox === null) return { child: await spawn(spec), launch: null };
  for (let attempt = 1; ; attempt++) {
    const launch = await wrapInSandbox(spec, signal);
    const child = await spawnInside(launch, spawn, signal, attempt === SANDBOXED_START_ATTEMPTS);
    if (child !== null) return { child, launch };
  }
}

/** What runs in a sandbox, or is about to. */
export async function childOf(
  launch: SandboxedLaunch,
  spawn: (spec: SpawnSpec) => Promise<Child>,
): Promise<Child> {
  return launch.spec === null ? launch.child : await spawn(launch.spec);
}

/** Gives back what was made for a program. What is left behind is found by its mark when the place is used again. */
export async function clearAway({ release }: Pick<SandboxedLaunch, 'release'>): Promise<void> {
  if (release === null) return;
  await withTimeout(
    release().catch(() => {}),
    RELEASE_DEADLINE_MS,
  );
}

/** Ends a child that nobody will hear of. */
export async function discard(child: Child): Promise<void> {
  for (const source of child.outputs) source.destroy();
  child.stdin?.destroy();
  await child.killTree();
  child.release();
}

/** Null when the sandbox was not what it should be, and is cleared away. */
async function spawnInside(
  launch: SandboxedLaunch,
  spawn: (spec: SpawnSpec) => Promise<Child>,
  signal: AbortSignal,
  isLast: boolean,
): Promise<Child | null> {
  let child: Child | null = null;
  try {
    child = await childOf(launch, spawn);
    const entered = launch.entered === undefined || (await hasEntered(launch.entered, child, signal));
    signal.throwIfAborted();
    if (entered || isLast) return child;
  } catch (error) {
    if (child !== null) await discard(child);
    await clearAway(launch);
    if (!(error instanceof SandboxOutdatedError)) throw error;
    if (isLast) throw error.reason;
    return null;
  }
  await discard(child);
  await clearAway(launch);
  return null;
}

/** Nobody waits for a child whose start is given up: one that hangs in the kernel may never say anything. */
async function hasEntered(
  entered: NonNullable<SandboxedLaunch['entered']>,
  child: Child,
  signal: AbortSignal,
): Promise<boolean> {
  return !signal.aborted && (await unlessAborted(entered(child), signal, () => false));
}
