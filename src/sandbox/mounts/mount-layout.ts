import {
  isWithin,
  lastName,
  type NativePath,
  nativePathOfBytes,
  parentPath,
  textOfNativePath,
} from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { DIRECTORY_NAMES } from '../policy/normalize.ts';
import { AccessMap } from './access-map.ts';
import type { FileProbe } from './file-probe.ts';
import type { MissingPath, MountStep, Placeholder } from './mount-plan.ts';
import type { RealEntry, RealPolicy } from './real-policy.ts';

/** A step at a path. No two steps of a plan have the same path. */
export type Mount = Extract<MountStep, { readonly path: NativePath }>;

/** The mounts over the base of a sandbox, in no particular order. */
interface MountLayout {
  readonly mounts: readonly Mount[];
  readonly placeholders: readonly Placeholder[];
  readonly missing: readonly MissingPath[];
}

/** What runs in the sandbox: one program, or a file helper for many requests. */
export type PlanPurpose = 'program' | 'files';

/** Determines the mounts that enforce a policy. */
export async function layOutMounts(
  policy: RealPolicy,
  probe: FileProbe,
  purpose: PlanPurpose,
): Promise<MountLayout> {
  const layout = new Layout(policy.base, probe, purpose);
  for (const entry of policy.entries) await layout.add(entry);
  for (const path of policy.denied) layout.denyFile(path);
  for (const link of policy.links) layout.showLink(link.path, link.target);
  return layout.result();
}

const ROOT = nativePathOfBytes('/');
const PROC = nativePathOfBytes('/proc');
const DEV = nativePathOfBytes('/dev');
/** Devices that cannot be bind-mounted from the host: only the /dev of the sandbox itself allows opening devices. */
const OWN_DEVICES =
  /^\/dev(?:$|\/(?:null|zero|full|random|urandom|tty|console|ptmx|fd|stdin|stdout|stderr)$|\/pts(?:\/|$))/;

class Layout {
  readonly #probe: FileProbe;
  readonly #purpose: PlanPurpose;
  /** The access of each path, from the entries added so far. */
  readonly #access: AccessMap;
  readonly #mounts = new Map<NativePath, Mount>();
  readonly #placeholders = new Map<NativePath, Placeholder>();
  readonly #missing: MissingPath[] = [];

  constructor(base: RealPolicy['base'], probe: FileProbe, purpose: PlanPurpose) {
    this.#probe = probe;
    this.#purpose = purpose;
    this.#access = new AccessMap(base);
  }

  result(): MountLayout {
    return {
      mounts: [...this.#mounts.values()],
      placeholders: [...this.#placeholders.values()],
      missing: this.#missing,
    };
  }

  /** Outer entries must be added before inner ones. */
  async add(entry: RealEntry): Promise<void> {
    const { real, facts, unreachable } = entry.resolved;
    if (isSandboxOwned(entry)) return;
    // A protected name only restricts a writable root. It grants nothing inside another entry.
    if (entry.byName && this.#access.around(real) !== 'write') return;
    if (unreachable !== null) this.#addUnreachable(entry, unreachable);
    else if (facts === null) await this.#addMissing(entry);
    else {
      if (entry.access === 'write') this.#addWritable(real);
      else if (entry.access === 'read') this.#addReadable(entry);
      else this.#addDenied(real, facts.type === 'directory');
      this.#access.set(real, entry.access);
    }
  }

  denyFile(path: NativePath): void {
    if (isWithin(path, PROC)) throw belowProc(path);
    if (this.#access.at(path) === 'deny') return;
    this.#hide(path, false);
    if (this.#access.around(path) === 'write') this.#pin(path);
  }

  /** Recreates a link in a hidden directory, so that its target can be used by this name. */
  showLink(path: NativePath, target: string): void {
    if (isWithin(path, PROC) || isWithin(path, DEV)) return;
    if (this.#access.at(path) !== 'deny' || this.#mounts.has(path)) return;
    this.#mounts.set(path, { kind: 'link', path, target });
  }

  /** A writable root inside another one is mounted too. Otherwise it could be moved away together with its protected names. */
  #addWritable(path: NativePath): void {
    if (this.#access.around(path) === 'write') this.#pin(path);
    this.#bind(path, true);
  }

  #addReadable({ byName, resolved }: RealEntry): void {
    const around = this.#access.around(resolved.real);
    if (around === 'read') return;
    this.#bind(resolved.real, false);
    if (around === 'write' && !byName) this.#pin(resolved.real);
  }

  #addDenied(path: NativePath, isDirectory: boolean): void {
    const around = this.#access.around(path);
    if (around === 'deny') return;
    this.#hide(path, isDirectory);
    if (around === 'write') this.#pin(path);
  }

  /** An inaccessible directory outside of writable ones stays inaccessible. Inside, the program could make it accessible later. */
  #addUnreachable({ access, resolved }: RealEntry, directory: NativePath): void {
    if (access === 'write' || this.#access.at(directory) !== 'write') return;
    throw unenforceable(
      `cannot enforce the sandbox path ${textOfNativePath(resolved.real)} because ${textOfNativePath(directory)} is not accessible to the server; grant access or name another path`,
    );
  }

  /** Prevents the program from creating the path. Outside of writable directories it cannot be created anyway. */
  async #addMissing({ access, byName, resolved }: RealEntry): Promise<void> {
    if (access === 'write') return;
    if (resolved.nonDirectory !== null) {
      if (this.#access.at(resolved.nonDirectory) !== 'write') return;
      // While this entry stays as it is, nothing can exist below it.
      this.#bind(resolved.nonDirectory, true);
      this.#pin(resolved.nonDirectory);
      return;
    }
    const path = resolved.firstMissing!;
    if (this.#access.at(path) !== 'write') return;
    const asDirectory =
      byName || (access === 'read' && path === resolved.real && DIRECTORY_NAMES.includes(lastName(path)));
    if (this.#purpose === 'files') {
      this.#missing.push({ path: resolved.real, access, byName: asDirectory });
    } else if (await this.#probe.mayCreateIn(parentPath(path))) {
      this.#access.set(path, 'read');
      this.#placeholders.set(path, { path, kind: asDirectory ? 'directory' : 'file' });
      // The placeholder is empty, and a read-only bind mount keeps it empty. An empty tmpfs would take two mounts.
      if (asDirectory) this.#bind(path, false);
      else this.#mounts.set(path, { kind: 'emptyFile', path, mode: access === 'deny' ? 0 : 0o444 });
      if (!byName && access === 'read') this.#pin(path);
    }
  }

  #hide(path: NativePath, isDirectory: boolean): void {
    const kind = isDirectory ? 'emptyDirectory' : 'emptyFile';
    this.#mounts.set(path, { kind, path, mode: 0 });
  }

  #bind(path: NativePath, writable: boolean): void {
    this.#mounts.set(path, { kind: 'bind', path, writable });
  }

  /**
   * Bind-mounts the directories between a path and its writable root onto themselves, because a mount point cannot be renamed. Otherwise
   * a program could move `a` away and create another `a/b`. It could then write to a read-only path, or let the next program read `c/b`,
   * which no rule denies. The price is that files cannot be renamed across these directories, only copied. Files that a glob denies are
   * pinned too: they could be moved between the scan and the mount, even to a path that the glob also matches.
   */
  #pin(path: NativePath): void {
    for (let at = parentPath(path); at !== ROOT && at !== DEV; at = parentPath(at)) {
      if (this.#mounts.has(at)) return;
      this.#bind(at, true);
    }
  }
}

/** Whether the path is in the sandbox's own /proc or /dev. Those of the host are never mounted; an entry that allows access has no effect. */
function isSandboxOwned({ access, resolved: { real } }: RealEntry): boolean {
  if (isWithin(real, PROC)) {
    if (access === 'deny' && real !== PROC) throw belowProc(real);
    return access !== 'deny';
  }
  return access !== 'deny' && isWithin(real, DEV) && OWN_DEVICES.test(real);
}

function belowProc(path: NativePath): Error {
  return unenforceable(
    `cannot deny ${textOfNativePath(path)}: the sandbox has its own /proc; deny /proc as a whole`,
  );
}
