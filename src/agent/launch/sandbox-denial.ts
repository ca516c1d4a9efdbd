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
  if (SIGNS.some((sign) => text.includes(sign))) return true;
  return exitCode === KILLED_BY_SECCOMP;
}

/** Texts of programs and the system for denied operations. */
const SIGNS = [
  'operation not permitted',
  'permission denied',
  'read-only file system',
  'seccomp',
  'sandbox',
  'landlock',
  'failed to write file',
];

/** 128 + SIGSYS, with which a seccomp filter kills a program. */
const KILLED_BY_SECCOMP = 128 + 31;
