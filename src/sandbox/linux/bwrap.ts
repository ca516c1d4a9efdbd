import { constants } from 'node:fs';
import { access, lstat, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path/posix';
import { nativePathOfBytes } from '../../files/native-path.ts';
import type { Child, Spawner } from '../../process/spawn/spawner.ts';
import { SandboxError } from '../errors.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { bwrapArguments, bwrapSpec } from './bwrap-arguments.ts';
import { descriptorPath } from './descriptors.ts';
import { fixFor, INSTALL_BWRAP } from './fixes.ts';
import { idleImage } from './launcher.ts';
import { PROBE_COMPLAINT_BYTES, PROBE_DEADLINE_MS, PROBE_RETRY_MS } from './limits.ts';
import { seccompFilter } from './seccomp.ts';
import type { Architecture } from './syscalls.ts';

/** Nothing can be sandboxed here: why, and what to change on this machine as far as that is known. */
export class BwrapUnavailable extends SandboxError {
  readonly reason: string;
  readonly fix: string | null;

  constructor(reason: string, fix: string | null) {
    const advice = fix === null ? '' : `; ${fix}`;
    super('unenforceable', `programs cannot be sandboxed on this machine: ${reason}${advice}`);
    this.reason = reason;
    this.fix = fix;
  }
}

/**
 * The bwrap of this machine: looked for once, on the search path that the server was started with, and tried when somebody wants to
 * know whether it works before anything has shown that. What a request says about its environment has no influence on it.
 */
export class Bwrap {
  readonly #spawner: Spawner;
  readonly #searchPath: string;
  readonly #architecture: Architecture;
  #attempt: { readonly path: Promise<string>; failedAt: number | null } | null = null;
  #trusted: Promise<string> | null = null;
  #works: boolean | null = null;

  constructor(spawner: Spawner, searchPath: string, architecture: Architecture) {
    this.#spawner = spawner;
    this.#searchPath = searchPath;
    this.#architecture = architecture;
  }

  /** Its real path, once it has been shown to work. Rejects with BwrapUnavailable. */
  path(): Promise<string> {
    const failedAt = this.#attempt?.failedAt ?? null;
    if (this.#attempt === null || (failedAt !== null && performance.now() - failedAt > PROBE_RETRY_MS)) {
      const attempt = { path: this.#findWorking(), failedAt: null as number | null };
      attempt.path.then(
        () => {
          this.#works = true;
        },
        () => {
          attempt.failedAt = performance.now();
          // Else something has run in a sandbox meanwhile.
          if (this.#attempt === attempt) this.#works = false;
        },
      );
      this.#attempt = attempt;
    }
    return this.#attempt.path;
  }

  /** Whether it works, as far as is known; null before anybody has found out. */
  get works(): boolean | null {
    return this.#works;
  }

  /** Something runs in a sandbox that it has built, with a network of its own: no trial could show more. */
  proven(): void {
    if (this.#works === true || this.#trusted === null) return;
    this.#works = true;
    this.#attempt = { path: this.#trusted, failedAt: null };
  }

  /**
   * Its real path, which nobody else can have put there, before it has been shown to work. For whoever can do without the trial, because
   * a bwrap that does not work is noticed anyway; {@link path} then says why. Rejects with BwrapUnavailable.
   */
  async trusted(): Promise<string> {
    this.#trusted ??= findBwrap(this.#searchPath);
    try {
      return await this.#trusted;
    } catch (error) {
      this.#trusted = null;
      this.#works = false;
      throw error;
    }
  }

  async #findWorking(): Promise<string> {
    const path = await this.trusted();
    const complaint = await this.#try(path);
    if (complaint === null) return path;
    // Another one may be there the next time.
    this.#trusted = null;
    throw new BwrapUnavailable(`${path} does not work here: ${complaint}`, fixFor(complaint));
  }

  /** Builds and leaves a sandbox. Null when that works, else what went wrong. */
  async #try(path: string): Promise<string | null> {
    const options = { isolateNetwork: true, emptyFd: () => -1, filterFd: 4, launcherFile: null };
    const args = [...bwrapArguments(PROBE_PLAN, options), '--', descriptorPath(3)];
    const inherited = [idleImage(this.#architecture), seccompFilter('restricted', this.#architecture)];
    const child = await this.#spawner.spawn({
      ...bwrapSpec(path, args, inherited),
      io: { kind: 'pipe', stdin: 'closed' },
    });
    const deadline = setTimeout(() => void child.killTree(), PROBE_DEADLINE_MS);
    const { code, complaint } = await outcomeOf(child);
    clearTimeout(deadline);
    if (code === 0) return null;
    return complaint || (code === null ? 'it did not end in time' : `it exited with ${code}`);
  }
}

/** The tree of most sandboxes, without what a policy adds. */
const PROBE_PLAN: MountPlan = {
  steps: [
    { kind: 'bind', path: nativePathOfBytes('/'), writable: false },
    { kind: 'devices', sharedMemory: 'private' },
    { kind: 'processes' },
  ],
  mounted: [],
  placeholders: [],
  missing: [],
  fingerprint: '',
  observed: { paths: [], globs: [] },
};

/** The first bwrap on the path that nobody but root and this user can have put there. Rejects with BwrapUnavailable. */
export async function findBwrap(searchPath: string): Promise<string> {
  let distrusted: string | null = null;
  for (const directory of searchPath.split(':')) {
    if (!directory.startsWith('/')) continue;
    const path = await executableAt(join(directory, 'bwrap'));
    if (path === null) continue;
    const weakness = await weaknessOf(path);
    if (weakness === null) return path;
    distrusted ??= weakness;
  }
  throw distrusted === null
    ? new BwrapUnavailable(`bwrap was not found on this server's PATH (${searchPath})`, INSTALL_BWRAP)
    : new BwrapUnavailable(
        `${distrusted}, so that bwrap cannot be trusted`,
        `correct the permissions or ${INSTALL_BWRAP}`,
      );
}

async function executableAt(path: string): Promise<string | null> {
  try {
    const real = await realpath(path);
    await access(real, constants.X_OK);
    return (await lstat(real)).isFile() ? real : null;
  } catch {
    return null;
  }
}

/** Which part of a real path others could replace, in words; null when none. Entries of a sticky directory belong to their owners. */
async function weaknessOf(path: string): Promise<string | null> {
  for (let part = path; ; part = dirname(part)) {
    const { uid, mode } = await lstat(part);
    const sticky = part !== path && (mode & STICKY) !== 0;
    if (uid !== 0 && uid !== process.geteuid?.()) return `${part} belongs to another user`;
    if ((mode & WRITABLE_BY_OTHERS) !== 0 && !sticky) return `${part} can be changed by other users`;
    if (part === '/') return null;
  }
}

const STICKY = 0o1000;
const WRITABLE_BY_OTHERS = 0o022;

async function outcomeOf(
  child: Child,
): Promise<{ readonly code: number | null; readonly complaint: string }> {
  let complaint = '';
  const ends = child.outputs.map(
    (source) =>
      new Promise<void>((resolve) => {
        source.listen((bytes) => {
          complaint = (complaint + bytes.toString()).slice(0, PROBE_COMPLAINT_BYTES);
        }, resolve);
        source.resume();
      }),
  );
  const exited = new Promise<number | null>((resolve) => child.onExit(({ code }) => resolve(code)));
  const [code] = await Promise.all([exited, ...ends]);
  child.release();
  return { code, complaint: complaint.trim() };
}
