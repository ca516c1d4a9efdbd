import { ProcessError } from '../errors.ts';
import type { ProgramRequest } from '../program-request.ts';
import { MAX_SCOPE_BYTES } from './limits.ts';

/** A shell whose state can be captured and restored. */
export type ShellKind = 'bash' | 'zsh' | 'sh';

/** A request to run a command in the captured state of its login shell. */
interface ShellStateRequest {
  /** Commands of one scope share a state. */
  readonly scopeId: string;
  readonly shell: { readonly name: string; readonly path: string };
}

/** A command of a login shell that runs in the captured state and not after a new login. */
export interface LoginCommand {
  readonly kind: ShellKind;
  readonly scopeId: string;
  readonly program: ProgramRequest;
}

/** Reads a login command from a request. Null for any other command, which runs unchanged. Throws when the request is invalid. */
export function loginCommandOf(
  program: ProgramRequest,
  request: ShellStateRequest | null,
): LoginCommand | null {
  if (request === null) return null;
  const { scopeId, shell } = request;
  if (scopeId === '' || Buffer.byteLength(scopeId) > MAX_SCOPE_BYTES) {
    throw new ProcessError(
      'invalidShellSnapshot',
      `shell snapshot scope must be non-empty and at most ${MAX_SCOPE_BYTES} bytes`,
    );
  }
  const { argv } = program;
  if (argv.length < 3 || argv[0] !== shell.path || argv[1] !== '-lc') return null;
  if (!isShellKind(shell.name)) {
    throw new ProcessError(
      'invalidShellSnapshot',
      `shell snapshots are unsupported for shell \`${shell.name}\`; those of bash, zsh and sh are`,
    );
  }
  return { kind: shell.name, scopeId, program };
}

function isShellKind(name: string): name is ShellKind {
  return name === 'bash' || name === 'zsh' || name === 'sh';
}
