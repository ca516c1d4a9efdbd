import type { ProcessInfo, SandboxRequest } from '../../../environment/index.ts';
import type { Call } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { MAX_POSITIONS } from '../limits.ts';
import { protectedPaths } from '../workspace.ts';
import type { Collected } from './collect.ts';

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
export async function requireConfined(call: Call, info: Confinable): Promise<void> {
  const why = await widerSandbox(call, info);
  if (why === null) return;
  const { ref } = info;
  throw new ToolFailure(
    `Process ${ref} cannot be controlled from here, because ${why}. Its output can be read with read_output and wait_process. Start your own program with exec_command, or ask the user to type into this one or end it (exec-server attach, exec-server kill).`,
    { kind: 'permissionDenied' },
  );
}

/** What a model can do with a process besides reading: type into it, or end it, or nothing. */
export type Control = 'type' | 'end' | 'none' | 'unknown';

/** Which control of a process the tools would allow. */
export async function controlOf(
  call: Call,
  info: Confinable & Pick<ProcessInfo, 'tty'>,
  { exitCode, closed, isUnreachable }: Pick<Collected, 'exitCode' | 'closed' | 'isUnreachable'>,
): Promise<Control> {
  if (call.readOnly) return 'none';
  // The answer does not name what it could be used for.
  if (isUnreachable || (exitCode !== null && closed)) return 'unknown';
  try {
    if ((await widerSandbox(call, info)) !== null) return 'none';
  } catch {
    return 'unknown'; // The output is worth more than this.
  }
  return info.tty ? 'type' : 'end';
}

type Confinable = Pick<ProcessInfo, 'sandbox'> & { readonly ref: string };

/** Why the tools must not control a program; null when they may. */
async function widerSandbox(
  { target, workspace, programs, signal }: Call,
  { ref, sandbox: actual }: Confinable,
): Promise<string | null> {
  const own = await workspace.programSandbox(target, signal);
  if (own === null || programs.has(target.name, ref, own)) return null;
  const writable = workspace.sandbox === 'read-only' ? [] : await workspace.roots(target, signal);
  if (actual !== null && isWithin(actual, writable)) return null;
  return actual === null
    ? 'it runs without a sandbox'
    : 'its sandbox allows other things than the sandbox of these tools';
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
