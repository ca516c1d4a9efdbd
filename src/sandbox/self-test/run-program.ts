import type { OutputSource, Spawner } from '../../process/spawn/spawner.ts';
import { type SandboxedLaunch, spawnLaunch } from '../../process/start-program.ts';

/** The outcome of a self-test program. */
export interface ProgramOutcome {
  /** Null when a signal killed it, also at the deadline. */
  readonly code: number | null;
  /** The beginning of its output on each stream. */
  readonly output: string;
  readonly stderr: string;
}

/** Runs a program until it exits, within a deadline, and releases its sandbox. */
export async function runProgram(spawner: Spawner, launch: SandboxedLaunch): Promise<ProgramOutcome> {
  try {
    const child = await spawnLaunch(launch, spawner);
    const entered = launch.entered?.(child).catch(() => child.killTree());
    const deadline = setTimeout(() => void child.killTree(), PROGRAM_DEADLINE_MS);
    const exited = new Promise<number | null>((resolve) => child.onExit(({ code }) => resolve(code)));
    const code = exited.finally(() => child.killTree());
    const texts = child.outputs.map(beginningOf);
    const [first = '', second = ''] = await Promise.all(texts);
    const outcome = { code: await code, output: first, stderr: second };
    await entered;
    clearTimeout(deadline);
    child.release();
    return outcome;
  } finally {
    await launch.release?.();
  }
}

function beginningOf(source: OutputSource): Promise<string> {
  let text = '';
  return new Promise((resolve) => {
    source.listen(
      (bytes) => {
        text = (text + bytes.toString()).slice(0, PROGRAM_OUTPUT_BYTES);
      },
      () => resolve(text.trim()),
    );
    source.resume();
  });
}

/** How long a self-test program may take. The longest makes two dozen attempts, which takes a tenth of a second. */
const PROGRAM_DEADLINE_MS = 20_000;

/** How much output of a self-test program is kept. The longest report has two kilobytes. */
const PROGRAM_OUTPUT_BYTES = 64 * 1024;
