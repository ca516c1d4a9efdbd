import type { OutputSource, Spawner } from '../../process/spawn/spawner.ts';
import { type SandboxedLaunch, spawnLaunch } from '../../process/start-program.ts';
import { PROGRAM_DEADLINE_MS, PROGRAM_OUTPUT_BYTES } from './limits.ts';

/** How a program of the self-test ended. */
export interface ProgramOutcome {
  /** Null when a signal ended it, as the deadline does. */
  readonly code: number | null;
  /** The beginning of what it printed on each stream. */
  readonly output: string;
  readonly complaint: string;
}

/** Runs a program to its end, within a deadline, and clears away everything that was made for it. */
export async function runProgram(spawner: Spawner, launch: SandboxedLaunch): Promise<ProgramOutcome> {
  try {
    const child = await spawnLaunch(launch, spawner);
    const entered = launch.entered?.(child).catch(() => child.killTree());
    const deadline = setTimeout(() => void child.killTree(), PROGRAM_DEADLINE_MS);
    const exited = new Promise<number | null>((resolve) => child.onExit(({ code }) => resolve(code)));
    const code = exited.finally(() => child.killTree());
    const texts = child.outputs.map(beginningOf);
    const [first = '', second = ''] = await Promise.all(texts);
    const outcome = { code: await code, output: first, complaint: second };
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
