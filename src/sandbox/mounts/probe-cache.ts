import { forEachBounded } from '../../base/for-each-bounded.ts';
import { errorCode } from '../../files/errors.ts';
import { lastName, type NativePath, parentPath } from '../../files/native-path.ts';
import { isPlaceholderMode } from '../../files/placeholder-mode.ts';
import { MAX_CACHED_PROBES, PROBE_CONCURRENCY } from '../limits.ts';
import { DIRECTORY_NAMES } from '../policy/normalize.ts';
import type { FileFacts, FileProbe } from './file-probe.ts';
import type { KernelMount } from './kernel-mounts.ts';

/**
 * Probes the disk for one plan. Each path is probed once, so that every part of the plan uses the same facts. Reports placeholders as
 * missing, because they disappear with the sandbox that needed them.
 */
export class ProbeCache implements FileProbe {
  readonly #probe: FileProbe;
  readonly #facts = new Map<NativePath, Promise<FileFacts | 'unreachable' | null>>();
  readonly #creatable = new Map<NativePath, Promise<boolean>>();
  #kernelMounts: Promise<readonly KernelMount[]> | null = null;
  /** Whether the plan depends on a directory listing or on file content, whose changes do not show in the facts. */
  #unverifiable = false;

  constructor(probe: FileProbe) {
    this.#probe = probe;
  }

  facts(path: NativePath): Promise<FileFacts | 'unreachable' | null> {
    return cached(this.#facts, path, async () => {
      const facts = await this.#probe.facts(path);
      if (facts === null || facts === 'unreachable' || !mayBePlaceholder(path, facts)) return facts;
      return (await this.#isEmpty(path, facts)) ? null : facts;
    });
  }

  /** Not cached: a link with another target has another identity. */
  linkTarget(path: NativePath): Promise<string> {
    return this.#probe.linkTarget(path);
  }

  entries(directory: NativePath): ReturnType<FileProbe['entries']> {
    this.#unverifiable = true;
    return this.#probe.entries(directory);
  }

  beginning(path: NativePath, maxBytes: number): Promise<string> {
    this.#unverifiable = true;
    return this.#probe.beginning(path, maxBytes);
  }

  mayCreateIn(directory: NativePath): Promise<boolean> {
    return cached(this.#creatable, directory, () => this.#probe.mayCreateIn(directory));
  }

  kernelMounts(): Promise<readonly KernelMount[]> {
    this.#kernelMounts ??= this.#probe.kernelMounts();
    return this.#kernelMounts;
  }

  /** An entry that cannot be read counts as not empty, so that it stays protected. */
  async #isEmpty(path: NativePath, { type }: FileFacts): Promise<boolean> {
    try {
      if (type === 'file') return (await this.#probe.beginning(path, 1)) === '';
      for await (const batch of this.#probe.entries(path)) if (batch.length > 0) return false;
      return true;
    } catch (error) {
      return errorCode(error) === 'ENOENT';
    }
  }

  /** Whether {@link isUnchanged} can verify all probes, and there are few enough of them. */
  get verifiable(): boolean {
    return !this.#unverifiable && this.#facts.size <= MAX_CACHED_PROBES;
  }

  /**
   * Whether all probes would give the same results now. Then all conclusions from them still hold. False when a probe fails. Requires
   * {@link verifiable}. The caller already knows that the `verified` paths are unchanged and that entries can be created in their parent
   * directories.
   */
  async isUnchanged(verified: ReadonlySet<NativePath>): Promise<boolean> {
    const now = new ProbeCache(this.#probe);
    let same = true;
    const compare = async (probe: (from: ProbeCache) => Promise<string>) => {
      if (same && (await probe(this)) !== (await probe(now))) same = false;
    };
    const probed = [...this.#facts.keys()].filter((path) => !verified.has(path));
    const around = new Set([...verified].map(parentPath));
    const asked = [...this.#creatable.keys()].filter((path) => !around.has(path));
    const probes = [
      ...probed.map((path) => async (from: ProbeCache) => identityOf(await from.facts(path))),
      ...asked.map((path) => async (from: ProbeCache) => String(await from.mayCreateIn(path))),
      async (from: ProbeCache) => describeKernelMounts(await from.kernelMounts()),
    ];
    try {
      await forEachBounded(probes, PROBE_CONCURRENCY, compare);
    } catch {
      return false;
    }
    return same;
  }
}

function cached<T>(
  known: Map<NativePath, Promise<T>>,
  path: NativePath,
  probe: () => Promise<T>,
): Promise<T> {
  let result = known.get(path);
  if (result === undefined) {
    result = probe();
    known.set(path, result);
  }
  return result;
}

function describeKernelMounts(mounts: readonly KernelMount[]): string {
  return mounts.map(({ path, device }) => `${device}:${path}`).join('\0');
}

function identityOf(facts: FileFacts | 'unreachable' | null): string {
  return facts === null || facts === 'unreachable' ? String(facts) : facts.identity;
}

/** A program can give this mode to any entry that it may write. The check for emptiness keeps such an entry protected. */
function mayBePlaceholder(path: NativePath, { type, mode }: FileFacts): boolean {
  if (!isPlaceholderMode(mode)) return false;
  return type === 'file' || (type === 'directory' && DIRECTORY_NAMES.includes(lastName(path)));
}
