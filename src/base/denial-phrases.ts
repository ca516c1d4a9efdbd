/** What programs and the system print when a sandbox denies an operation, in lower case. */
export const DENIAL_PHRASES: readonly string[] = [
  'operation not permitted',
  'permission denied',
  'read-only file system',
  'seccomp',
  'sandbox',
  'landlock',
  'failed to write file',
];

/** 128 + SIGSYS, with which a seccomp filter kills a program. */
export const SECCOMP_EXIT_CODE = 128 + 31;
