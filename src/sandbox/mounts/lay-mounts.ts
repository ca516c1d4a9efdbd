import {
  isWithin,
  lastName,
  type NativePath,
  nativePathOfBytes,
  parentPath,
  textOfNativePath,
} from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { PROTECTED_NAMES } from '../policy/normalize.ts';
import { AccessMap } from './access-map.ts';
import type { FileProbe } from './file-probe.ts';
import type { MissingPath, MountStep, Placeholder } from './mount-plan.ts';
import type { RealEntry, RealPolicy } from './real-policy.ts';

/** A step that has a place of its own; no two of a plan have the same. */
export type Mount = Extract<MountStep, { readonly path: NativePath }>;

/** What is laid over the foundation of a sandbox, in no particular order. */
export interface Layers {
  readonly mounts: readonly Mount[];
  readonly placeholders: readonly Placeholder[];
  readonly missing: readonly MissingPath[];
}

/** Who is going to live in the sandbox: a program for as long as it runs, or the helper that works on files for many requests. */
export type PlanPurpose = 'program' | 'files';

/** The mounts that make a policy true. */
export async function layMounts(policy: RealPolicy, probe: FileProbe, purpose: PlanPurpose): Promise<Layers> {
  const layout = new Layout(policy.base, probe, purpose);
  for (const entry of policy.entries) await layout.lay(entry);
  for (const path of policy.denied) layout.denyFile(path);
  for (const link of policy.links) layout.showLink(link.path, link.target);
  return layout.layers();
}

const ROOT = nativePathOfBytes('/');
const PROC = nativePathOfBytes('/proc');
const DEV = nativePathOfBytes('/dev');
/** Mounted from the host these could not be opened: no mount of a sandbox has devices but its own. */
const OWN_DEVICES =
  /^\/dev(?:$|\/(?:null|zero|full|random|urandom|tty|console|ptmx|fd|stdin|stdout|stderr)$|\/pts(?:\/|$))/;

class Layout {
  readonly #probe: FileProbe;
  readonly #purpose: PlanPurpose;
  /** What holds where, by the entries that were laid. */
  readonly #access: AccessMap;
  readonly #mounts = new Map<NativePath, Mount>();
  readonly #placeholders = new Map<NativePath, Placeholder>();
  readonly #missing: MissingPath[] = [];

  constructor(base: RealPolicy['base'], probe: FileProbe, purpose: PlanPurpose) {
    this.#probe = probe;
    this.#purpose = purpose;
    this.#access = new AccessMap(base);
  }

  layers(): Layers {
    return {
      mounts: [...this.#mounts.values()],
      placeholders: [...this.#placeholders.values()],
      missing: this.#missing,
    };
  }

  /** Entries are laid from the outside in. */
  async lay(entry: RealEntry): Promise<void> {
    const { real, facts, unreachable } = entry.place;
    if (isOwn(entry)) return;
    // A protected name takes something away from a writable root; it gives nothing where another entry holds.
    if (entry.byName && this.#access.around(real) !== 'write') return;
    if (unreachable !== null) this.#layUnreachable(entry, unreachable);
    else if (facts === null) await this.#layMissing(entry);
    else {
      if (entry.access === 'write') this.#layWritable(real);
      else if (entry.access === 'read') this.#layReadable(entry);
      else this.#layDenied(real, facts.type === 'directory');
      this.#access.set(real, entry.access);
    }
  }

  denyFile(path: NativePath): void {
    if (isWithin(path, PROC)) throw belowProc(path);
    if (this.#access.at(path) === 'deny') return;
    this.#hide(path, false);
    if (this.#access.around(path) === 'write') this.#pin(path);
  }

  /** A link in a hidden directory is made anew: what it leads to may be used by its name. */
  showLink(path: NativePath, target: string): void {
    if (isWithin(path, PROC) || isWithin(path, DEV)) return;
    if (this.#access.at(path) !== 'deny' || this.#mounts.has(path)) return;
    this.#mounts.set(path, { kind: 'link', path, target });
  }

  /** A root within another one is mounted too, so that it cannot be moved away with the names protected in it. */
  #layWritable(path: NativePath): void {
    if (this.#access.around(path) === 'write') this.#pin(path);
    this.#bind(path, true);
  }

  #layReadable({ byName, place }: RealEntry): void {
    const around = this.#access.around(place.real);
    if (around === 'read') return;
    this.#bind(place.real, false);
    if (around === 'write' && !byName) this.#pin(place.real);
  }

  #layDenied(path: NativePath, isDirectory: boolean): void {
    const around = this.#access.around(path);
    if (around === 'deny') return;
    this.#hide(path, isDirectory);
    if (around === 'write') this.#pin(path);
  }

  /** A closed directory outside the writable ones stays closed. One inside could be opened by the program, and then it is too late. */
  #layUnreachable({ access, place }: RealEntry, directory: NativePath): void {
    if (access === 'write' || this.#access.at(directory) !== 'write') return;
    throw unenforceable(
      `cannot enforce the sandbox path ${textOfNativePath(place.real)} because ${textOfNativePath(directory)} is closed to the server`,
    );
  }

  /** What a program could make is kept from being made; elsewhere nothing can be made anyway. */
  async #layMissing({ access, byName, place }: RealEntry): Promise<void> {
    if (access === 'write') return;
    if (place.obstacle !== null) {
      if (this.#access.at(place.obstacle) !== 'write') return;
      // As long as this stays what and where it is there can be nothing below it.
      this.#bind(place.obstacle, true);
      this.#pin(place.obstacle);
      return;
    }
    const path = place.firstMissing!;
    if (this.#access.at(path) !== 'write') return;
    const asDirectory =
      byName || (access === 'read' && path === place.real && PROTECTED_NAMES.includes(lastName(path)));
    if (this.#purpose === 'files') {
      this.#missing.push({ path: place.real, access, byName: asDirectory });
    } else if (await this.#probe.mayCreateIn(parentPath(path))) {
      this.#access.set(path, 'read');
      this.#placeholders.set(path, { path, kind: asDirectory ? 'directory' : 'file' });
      // What is made there is empty, and mounted onto itself it stays so: one mount where an empty file system would take two.
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
   * Mounts the directories between a path and the writable root around it onto themselves. A mount point cannot be renamed. Without
   * this a program could move `a` away and make `a/b` anew, and so write where it may only read, or have the next program read
   * `c/b`, which nothing denies. The price is that files cannot be renamed across these directories, only copied. It is paid
   * for files that patterns deny as well: even where a pattern finds them wherever they are moved, they could be moved between the
   * moment in which they are found and that in which they are covered.
   */
  #pin(path: NativePath): void {
    for (let at = parentPath(path); at !== ROOT && at !== DEV; at = parentPath(at)) {
      if (this.#mounts.has(at)) return;
      this.#bind(at, true);
    }
  }
}

/**
 * Processes and devices are the sandbox's own. The host's are never put in their place; what an entry opens there is open as far
 * as it can be, or stays as it is.
 */
function isOwn({ access, place: { real } }: RealEntry): boolean {
  if (isWithin(real, PROC)) {
    if (access === 'deny' && real !== PROC) throw belowProc(real);
    return access !== 'deny';
  }
  return access !== 'deny' && isWithin(real, DEV) && OWN_DEVICES.test(real);
}

function belowProc(path: NativePath): Error {
  return unenforceable(
    `cannot deny ${textOfNativePath(path)}: the sandbox has processes of its own; deny /proc as a whole`,
  );
}
