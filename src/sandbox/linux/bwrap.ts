import { join } from 'node:path/posix';
import { nativePathOfBytes } from '../../files/native-path.ts';
import type { Child, Spawner } from '../../process/spawn/spawner.ts';
import { SandboxError } from '../errors.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { executableFile, weaknessOf } from '../trusted-program.ts';
import { bwrapArguments, bwrapSpec } from './bwrap-arguments.ts';
import { descriptorPath } from './descriptors.ts';
import { idleImage } from './launcher.ts';
import { PROBE_DEADLINE_MS, PROBE_OUTPUT_BYTES, PROBE_RETRY_MS } from './limits.ts';
import { seccompFilter } from './seccomp.ts';
import type { Architecture } from './syscalls.ts';

/** bwrap does not work on this machine. `fix` says what to change, or is null when no fix is known. */
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
 * The bwrap executable of this machine. It is `configuredPath`, or looked up once on the PATH of the server; the environment of a request
 * has no influence. It is probed only when its state is needed before a sandboxed program has shown that it works.
 */
export class Bwrap {
  readonly #spawner: Spawner;
  readonly #searchPath: string;
  readonly #architecture: Architecture;
  readonly #configuredPath: string;
  #attempt: { readonly path: Promise<string>; failedAt: number | null } | null = null;
  #trusted: Promise<string> | null = null;
  #works: boolean | null = null;

  constructor(spawner: Spawner, searchPath: string, architecture: Architecture, configuredPath = '') {
    this.#spawner = spawner;
    this.#searchPath = searchPath;
    this.#architecture = architecture;
    this.#configuredPath = configuredPath;
  }

  /** Its real path, after a probe has succeeded. Rejects with BwrapUnavailable. */
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
          // Otherwise a program has run in a sandbox in the meantime.
          if (this.#attempt === attempt) this.#works = false;
        },
      );
      this.#attempt = attempt;
    }
    return this.#attempt.path;
  }

  /** Whether bwrap works. Null while unknown. */
  get works(): boolean | null {
    return this.#works;
  }

  /** Records that a program runs in a sandbox with its own network. A probe could not show more. */
  markWorking(): void {
    if (this.#works === true || this.#trusted === null) return;
    this.#works = true;
    this.#attempt = { path: this.#trusted, failedAt: null };
  }

  /**
   * Its real path, without a probe. No other user can have installed or replaced it. For callers that detect a failing bwrap themselves;
   * {@link path} then says why it fails. Rejects with BwrapUnavailable.
   */
  async trustedPath(): Promise<string> {
    this.#trusted ??= findBwrap(this.#searchPath, this.#configuredPath);
    try {
      return await this.#trusted;
    } catch (error) {
      this.#trusted = null;
      this.#works = false;
      throw error;
    }
  }

  async #findWorking(): Promise<string> {
    const path = await this.trustedPath();
    const message = await this.#try(path);
    if (message === null) return path;
    // Another bwrap may be installed the next time.
    this.#trusted = null;
    throw new BwrapUnavailable(`${path} does not work here: ${message}`, fixFor(message));
  }

  /** Builds a sandbox and exits. Returns null on success, otherwise the error message. */
  async #try(path: string): Promise<string | null> {
    const options = { isolateNetwork: true, emptyFd: () => -1, filterFd: 4, launcherFile: null };
    const args = [...bwrapArguments(PROBE_PLAN, options), '--', descriptorPath(3)];
    const inherited = [idleImage(this.#architecture), seccompFilter('restricted', this.#architecture)];
    const child = await this.#spawner.spawn({
      ...bwrapSpec(path, args, inherited),
      io: { kind: 'pipe', stdin: 'closed' },
    });
    const deadline = setTimeout(() => void child.killTree(), PROBE_DEADLINE_MS);
    const { code, message } = await outcomeOf(child);
    clearTimeout(deadline);
    if (code === 0) return null;
    return (
      message ||
      (code === null ? `it did not exit within ${PROBE_DEADLINE_MS / 1_000} s` : `it exited with ${code}`)
    );
  }
}

/** The mounts that most sandboxes share. */
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

/**
 * The first bwrap on the path that only root and this user can replace. `configuredPath` is the only candidate unless it is empty.
 * Rejects with BwrapUnavailable.
 */
export async function findBwrap(searchPath: string, configuredPath = ''): Promise<string> {
  let distrusted: string | null = null;
  const directories = searchPath.split(':').filter((directory) => directory.startsWith('/'));
  const candidates =
    configuredPath === '' ? directories.map((directory) => join(directory, 'bwrap')) : [configuredPath];
  for (const candidate of candidates) {
    const path = await executableFile(candidate).catch(() => null);
    if (path === null) continue;
    const weakness = await weaknessOf(path);
    if (weakness === null) return path;
    distrusted ??= weakness;
  }
  if (distrusted === null && configuredPath !== '') {
    throw new BwrapUnavailable(
      `${configuredPath} (bwrapPath) is not an executable file`,
      'correct --bwrap-path, or leave it out to search the PATH',
    );
  }
  throw distrusted === null
    ? new BwrapUnavailable(`bwrap was not found on this server's PATH (${searchPath})`, INSTALL_BWRAP)
    : new BwrapUnavailable(
        `bwrap cannot be trusted because ${distrusted}`,
        `correct the permissions or ${INSTALL_BWRAP}`,
      );
}

async function outcomeOf(child: Child): Promise<{ readonly code: number | null; readonly message: string }> {
  let message = '';
  const ends = child.outputs.map(
    (source) =>
      new Promise<void>((resolve) => {
        source.listen((bytes) => {
          message = (message + bytes.toString()).slice(0, PROBE_OUTPUT_BYTES);
        }, resolve);
        source.resume();
      }),
  );
  const exited = new Promise<number | null>((resolve) => child.onExit(({ code }) => resolve(code)));
  const [code] = await Promise.all([exited, ...ends]);
  child.release();
  return { code, message: message.trim() };
}

/** The fix for a bwrap that is missing or cannot be trusted. */
const INSTALL_BWRAP =
  'install the package bubblewrap (apt-get install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)';

/** The fix for an error message of bwrap, with a command where possible. Null when none is known. */
export function fixFor(message: string): string | null {
  return FIXES.find(([pattern]) => pattern.test(message))?.[1] ?? null;
}

/** Messages of bwrap and their fixes. The first match counts. */
const FIXES: readonly (readonly [RegExp, string])[] = [
  [
    /mount proc/i,
    'a container with a masked /proc forbids it; start the container with an unmasked /proc (podman run --security-opt unmask=ALL, docker run --security-opt systempaths=unconfined, in Kubernetes hostUsers: false and procMount: Unmasked)',
  ],
  [
    /uid map|capset|loopback/i,
    'AppArmor may restrict user namespaces; allow them for bwrap with a profile, or for all programs (sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)',
  ],
  [
    /namespace|user_namespaces/i,
    'allow user namespaces (sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000); in a container, allow unshare and mount in its seccomp profile (docker run --security-opt seccomp=unconfined, in Kubernetes seccompProfile: {type: Unconfined}, or a profile of your own)',
  ],
  [/seccomp/i, 'this kernel needs CONFIG_SECCOMP_FILTER'],
  [
    /\/proc\/self\/fd\//,
    'allow memory files to be executed (sysctl -w vm.memfd_noexec=1, or 0 if that is not enough)',
  ],
];
