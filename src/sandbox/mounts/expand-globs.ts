import { errorCode } from '../../files/errors.ts';
import { MatchBudget } from '../../files/glob-set.ts';
import { childPath, type NativePath, textOfName, textOfNativePath } from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { GLOB_CONCURRENCY, MAX_DENY_MATCH_STEPS, MAX_GLOB_DIRECTORIES, MAX_GLOB_MATCHES } from '../limits.ts';
import { type PreparedGlob, prepareGlob } from '../policy/deny-glob.ts';
import type { DenyGlob } from '../policy/policy.ts';
import type { FileProbe } from './file-probe.ts';
import { type ResolvedPath, resolvePath } from './resolve-path.ts';

/** What globs match at the moment. */
interface GlobExpansion {
  /** The matching files by real path, sorted. */
  readonly files: readonly NativePath[];
  /** The scanned directories: their path in the glob, and the resolved path. */
  readonly roots: ReadonlyMap<NativePath, ResolvedPath>;
}

/**
 * Finds the regular files that the globs match, including hidden ones. Neither follows nor matches links, and cannot find files that are
 * created later. Throws SandboxError when there are too many files or directories, because then the globs cannot be enforced.
 */
export async function expandGlobs(
  globs: readonly DenyGlob[],
  probe: FileProbe,
  maxSteps = MAX_DENY_MATCH_STEPS,
): Promise<GlobExpansion> {
  const byRoot = new Map<NativePath, PreparedGlob[]>();
  for (const glob of globs.map(prepareGlob)) byRoot.set(glob.root, [...(byRoot.get(glob.root) ?? []), glob]);
  const roots = new Map<NativePath, ResolvedPath>();
  const files = new Set<NativePath>();
  const scan = new GlobScan(probe, files, maxSteps);
  for (const [root, rooted] of byRoot) {
    const resolved = await resolvePath(root, probe);
    roots.set(root, resolved);
    if (resolved.facts?.type === 'directory') await scan.below(resolved.real, rooted);
  }
  return { files: [...files].sort(), roots };
}

interface OpenDirectory {
  readonly path: NativePath;
  /** The path below the root, with a slash at its end; empty for the root. */
  readonly below: string;
}

class GlobScan {
  readonly #probe: FileProbe;
  readonly #files: Set<NativePath>;
  readonly #budget: MatchBudget;
  #directories = 0;

  constructor(probe: FileProbe, files: Set<NativePath>, maxSteps: number) {
    this.#probe = probe;
    this.#files = files;
    this.#budget = new MatchBudget(maxSteps, () =>
      unenforceable(
        'the deny patterns of the sandbox are too long for the number of files below their directories; set `glob_scan_max_depth`',
      ),
    );
  }

  async below(root: NativePath, globs: readonly PreparedGlob[]): Promise<void> {
    const maxDepth = Math.max(...globs.map((glob) => glob.maxDepth ?? Number.POSITIVE_INFINITY));
    let level: OpenDirectory[] = [{ path: root, below: '' }];
    for (let depth = 1; level.length > 0; depth++) {
      const next: OpenDirectory[] = [];
      const reaching = globs.filter((glob) => glob.maxDepth === null || depth <= glob.maxDepth);
      for (let at = 0; at < level.length; at += GLOB_CONCURRENCY) {
        const some = level.slice(at, at + GLOB_CONCURRENCY);
        await Promise.all(
          some.map((directory) => this.#scan(directory, reaching, depth < maxDepth ? next : null)),
        );
      }
      level = next;
    }
  }

  async #scan(
    { path, below }: OpenDirectory,
    globs: readonly PreparedGlob[],
    next: OpenDirectory[] | null,
  ): Promise<void> {
    try {
      for await (const batch of this.#probe.entries(path)) {
        for (const entry of batch) {
          if (entry.isDirectory()) {
            if (next === null) continue;
            this.#countDirectory();
            next.push({ path: childPath(path, entry.name), below: `${below}${entry.name}/` });
          } else if (entry.isFile()) {
            const pause = this.#budget.pause();
            if (pause !== null) await pause;
            if (this.#isMatch(`${below}${entry.name}`, globs)) this.#addMatch(childPath(path, entry.name));
          }
        }
      }
    } catch (error) {
      await this.#ignoreIfInaccessible(error, path);
    }
  }

  #isMatch(below: string, globs: readonly PreparedGlob[]): boolean {
    const text = textOfName(below);
    return globs.some(({ globs }) => {
      this.#budget.spend(text.length * globs.stepsPerCharacter);
      return globs.matches(text, false);
    });
  }

  #countDirectory(): void {
    if (++this.#directories <= MAX_GLOB_DIRECTORIES) return;
    throw unenforceable(
      `the deny patterns of the sandbox cover more than ${MAX_GLOB_DIRECTORIES} directories; set \`glob_scan_max_depth\``,
    );
  }

  #addMatch(path: NativePath): void {
    this.#files.add(path);
    if (this.#files.size > MAX_GLOB_MATCHES) {
      throw unenforceable(
        `the deny patterns of the sandbox match more than ${MAX_GLOB_MATCHES} files; deny directories instead`,
      );
    }
  }

  /**
   * A directory that no longer exists has no files. A directory that the server may not read is not readable for a sandboxed program
   * either, unless the user owns it: then the program could change its mode.
   */
  async #ignoreIfInaccessible(error: unknown, path: NativePath): Promise<void> {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return;
    if (code !== 'EACCES') throw error;
    const facts = await this.#probe.facts(path);
    if (facts === null || facts === 'unreachable' || facts.uid !== process.geteuid?.()) return;
    throw unenforceable(
      `cannot search ${textOfNativePath(path)} for files to deny: permission denied; make the directory readable`,
    );
  }
}
