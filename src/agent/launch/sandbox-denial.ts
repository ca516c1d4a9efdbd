import { DENIAL_PHRASES, SECCOMP_EXIT_CODE } from '../../base/denial-phrases.ts';

/** The end of a program. */
interface EndedProgram {
  readonly sandboxed: boolean;
  readonly exitCode: number | null;
  /** Whether the executor reports the sandbox as the reason. */
  readonly reported: boolean;
  readonly output: string;
}

/** Whether a program probably failed because of its sandbox: by the executor's report, or by its output and exit code. */
export function isSandboxDenial({ sandboxed, exitCode, reported, output }: EndedProgram): boolean {
  if (reported) return true;
  if (!sandboxed || exitCode === null || exitCode === 0) return false;
  const text = output.toLowerCase();
  if (DENIAL_PHRASES.some((phrase) => text.includes(phrase))) return true;
  return exitCode === SECCOMP_EXIT_CODE;
}
