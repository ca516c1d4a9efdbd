/**
 * Why a sandbox is not put into effect: the request contradicts itself or the protocol (`invalid`), one of its rules is about a
 * path of another kind of host (`foreignRule`), it is meant for another kind of host as a whole (`unsuitable`), or it makes sense but
 * cannot be kept here and now (`unenforceable`).
 */
export type SandboxErrorKind = 'invalid' | 'foreignRule' | 'unsuitable' | 'unenforceable';

/** A sandbox that is refused. What was to happen under it does not happen. */
export class SandboxError extends Error {
  override readonly name = 'SandboxError';
  readonly kind: SandboxErrorKind;

  constructor(kind: SandboxErrorKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The policy makes sense but nothing can keep it: with what is on the disk, or with what enforces it. */
export function unenforceable(message: string): SandboxError {
  return new SandboxError('unenforceable', message);
}
