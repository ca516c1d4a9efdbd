/** What is known of a program that has ended. */
export interface EndedProgram {
  readonly sandboxed: boolean;
  readonly exitCode: number | null;
  /** Whether the executor itself says that the sandbox was the reason. */
  readonly reported: boolean;
  readonly output: string;
}

/** Whether a program has probably failed because of its sandbox: the executor says so, or it looks like it. */
export function isSandboxDenial({ sandboxed, exitCode, reported, output }: EndedProgram): boolean {
  if (reported) return true;
  if (!sandboxed || exitCode === null || exitCode === 0) return false;
  const text = output.toLowerCase();
  if (SIGNS.some((sign) => text.includes(sign))) return true;
  return exitCode === KILLED_BY_SECCOMP;
}

/** What programs and the system say when something is forbidden. */
const SIGNS = [
  'operation not permitted',
  'permission denied',
  'read-only file system',
  'seccomp',
  'sandbox',
  'landlock',
  'failed to write file',
];

/** 128 + SIGSYS, by which a system call filter ends a program. */
const KILLED_BY_SECCOMP = 128 + 31;
