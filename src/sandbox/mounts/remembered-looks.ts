import { forEachBounded } from '../../base/for-each-bounded.ts';
import { errorCode } from '../../files/errors.ts';
import { lastName, type NativePath, parentPath } from '../../files/native-path.ts';
import { PROBES_AT_ONCE, REMEMBERED_LOOKS } from '../limits.ts';
import { PROTECTED_NAMES } from '../policy/normalize.ts';
import type { FileFacts, FileProbe } from './file-probe.ts';
import { isPlaceholderMode } from './mount-plan.ts';

/**
 * Looks at the disk for one plan: each path is looked at once, so that every part of the plan goes by the same facts. What is only
 * there to be mounted on counts as missing: it goes when the sandbox goes that needed it.
 */
export class RememberedLooks implements FileProbe {
  readonly #probe: FileProbe;
  readonly #facts = new Map<NativePath, Promise<FileFacts | 'unreachable' | null>>();
  readonly #creatable = new Map<NativePath, Promise<boolean>>();
  /** Whether something was looked at that tells less about itself than it has shown: a listing, or a content. */
  #unrepeatable = false;

  constructor(probe: FileProbe) {
    this.#probe = probe;
  }

  facts(path: NativePath): Promise<FileFacts | 'unreachable' | null> {
    return remembered(this.#facts, path, async () => {
      const facts = await this.#probe.facts(path);
      if (facts === null || facts === 'unreachable' || !mayBePlaceholder(path, facts)) return facts;
      return (await this.#isEmpty(path, facts)) ? null : facts;
    });
  }

  /** A link that leads elsewhere is another one, which its facts tell. */
  linkTarget(path: NativePath): Promise<string> {
    return this.#probe.linkTarget(path);
  }

  entries(directory: NativePath): ReturnType<FileProbe['entries']> {
    this.#unrepeatable = true;
    return this.#probe.entries(directory);
  }

  beginning(path: NativePath, maxBytes: number): Promise<string> {
    this.#unrepeatable = true;
    return this.#probe.beginning(path, maxBytes);
  }

  mayCreateIn(directory: NativePath): Promise<boolean> {
    return remembered(this.#creatable, directory, () => this.#probe.mayCreateIn(directory));
  }

  /** What cannot be told counts as full: that is kept closed. */
  async #isEmpty(path: NativePath, { type }: FileFacts): Promise<boolean> {
    try {
      if (type === 'file') return (await this.#probe.beginning(path, 1)) === '';
      for await (const batch of this.#probe.entries(path)) if (batch.length > 0) return false;
      return true;
    } catch (error) {
      return errorCode(error) === 'ENOENT';
    }
  }

  /** Whether all looks can be repeated, and are few enough to be worth it. */
  get repeatable(): boolean {
    return !this.#unrepeatable && this.#facts.size <= REMEMBERED_LOOKS;
  }

  /**
   * Whether all looks would show the same now. Then everything that was concluded from them holds, because nothing else went into it.
   * False where a look fails. Only for looks that are repeatable. Of the `proven` paths it is known by other means that they are as
   * they were, and that something could be made in the directories around them.
   */
  async wouldRepeat(proven: ReadonlySet<NativePath>): Promise<boolean> {
    const now = new RememberedLooks(this.#probe);
    let same = true;
    const compare = async (look: (from: RememberedLooks) => Promise<string>) => {
      if (same && (await look(this)) !== (await look(now))) same = false;
    };
    const seen = [...this.#facts.keys()].filter((path) => !proven.has(path));
    const around = new Set([...proven].map(parentPath));
    const asked = [...this.#creatable.keys()].filter((path) => !around.has(path));
    const looks = [
      ...seen.map((path) => async (from: RememberedLooks) => told(await from.facts(path))),
      ...asked.map((path) => async (from: RememberedLooks) => String(await from.mayCreateIn(path))),
    ];
    try {
      await forEachBounded(looks, PROBES_AT_ONCE, compare);
    } catch {
      return false;
    }
    return same;
  }
}

function remembered<T>(
  known: Map<NativePath, Promise<T>>,
  path: NativePath,
  look: () => Promise<T>,
): Promise<T> {
  let result = known.get(path);
  if (result === undefined) {
    result = look();
    known.set(path, result);
  }
  return result;
}

function told(facts: FileFacts | 'unreachable' | null): string {
  return facts === null || facts === 'unreachable' ? String(facts) : facts.identity;
}

/** A program may give anything that it can write to such a mode, and must not have it overlooked by that. */
function mayBePlaceholder(path: NativePath, { type, mode }: FileFacts): boolean {
  if (!isPlaceholderMode(mode)) return false;
  return type === 'file' || (type === 'directory' && PROTECTED_NAMES.includes(lastName(path)));
}
