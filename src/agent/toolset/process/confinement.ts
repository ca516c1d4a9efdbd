import type { ProcessInfo, SandboxRequest } from '../../../environment/index.ts';
import type { Call } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { MAX_POSITIONS } from '../limits.ts';
import { protectedPaths } from '../workspace.ts';

/** The programs that these tools started in a sandbox, by environment and reference. */
export class SandboxedPrograms {
  /** The sandbox of each, as JSON. The first started first. */
  readonly #sandboxes = new Map<string, string>();

  add(environment: string, ref: string, sandbox: SandboxRequest): void {
    this.#sandboxes.set(keyOf(environment, ref), JSON.stringify(sandbox));
    if (this.#sandboxes.size > MAX_POSITIONS) this.#sandboxes.delete(this.#sandboxes.keys().next().value!);
  }

  /** Whether a program was started in exactly this sandbox. */
  has(environment: string, ref: string, sandbox: SandboxRequest): boolean {
    return this.#sandboxes.get(keyOf(environment, ref)) === JSON.stringify(sandbox);
  }
}

/**
 * Checks before a process is typed into or ended. With a sandbox, throws ToolFailure unless the program can do no more than one that the
 * tools would start now: otherwise a model could leave its sandbox through a program that the user runs without one.
 */
export async function requireConfined(
  { target, workspace, programs, signal }: Call,
  { ref, sandbox: actual }: Pick<ProcessInfo, 'sandbox'> & { readonly ref: string },
): Promise<void> {
  const own = await workspace.programSandbox(target, signal);
  if (own === null || programs.has(target.name, ref, own)) return;
  const writable = workspace.sandbox === 'read-only' ? [] : await workspace.roots(target, signal);
  if (actual !== null && isWithin(actual, writable)) return;
  const why =
    actual === null
      ? 'it runs without a sandbox'
      : 'its sandbox allows other things than the sandbox of these tools';
  throw new ToolFailure(
    `Process ${ref} cannot be controlled from here, because ${why}. Its output can be read with read_output and wait_process. Start your own program with exec_command, or ask the user to type into this one or end it (exec-server attach, exec-server kill).`,
    { kind: 'permissionDenied' },
  );
}

/** The tools' own sandboxes leave every file readable, so only what is writable and the network matter. */
function isWithin(
  { type, writableRoots, readOnlyPaths, networkAccess }: NonNullable<ProcessInfo['sandbox']>,
  writable: readonly string[],
): boolean {
  if (type === 'other' || networkAccess) return false;
  if (type === 'readOnly') return true;
  // A directory below a root is not accepted: it can be one that the sandbox protects, such as .git.
  return writableRoots.every(
    (root) =>
      (root === SLASH_TMP && writable.length > 0) ||
      (writable.includes(root) && protectedPaths(root).every((path) => readOnlyPaths.includes(path))),
  );
}

function keyOf(environment: string, ref: string): string {
  return `${environment}\n${ref}`;
}

const SLASH_TMP = 'file:///tmp';
