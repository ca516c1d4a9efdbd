/**
 * Why a sandbox is refused:
 * - `invalid`: the request contradicts itself or the protocol.
 * - `foreignRule`: one of its rules names a path of another platform.
 * - `unsuitable`: the sandbox as a whole is meant for another platform.
 * - `unenforceable`: it is valid but cannot be enforced on this machine with the files that exist.
 */
export type SandboxErrorKind = 'invalid' | 'foreignRule' | 'unsuitable' | 'unenforceable';

/** The sandbox of a request is refused. The request has no effect. */
export class SandboxError extends Error {
  override readonly name = 'SandboxError';
  readonly kind: SandboxErrorKind;

  constructor(kind: SandboxErrorKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The policy is valid but cannot be enforced. */
export function unenforceable(message: string): SandboxError {
  return new SandboxError('unenforceable', message);
}
