import { forEachBounded } from '../../base/for-each-bounded.ts';
import { RunError } from '../failures.ts';
import { applyPlan } from './apply.ts';
import type { SideChanges } from './change-queue.ts';
import { IgnoreRules } from './ignore-rules.ts';
import { CHANGE_COMPARISONS, COMPARED_CHANGES, MAX_CHANGES } from './limits.ts';
import { type Plan, planSync } from './plan.ts';
import type { PassReason, Report } from './report.ts';
import { isFatal, Scanner } from './scan.ts';
import type { Side } from './side.ts';
import { ancestorsOf, type Entry, isOpaque, type Tree } from './tree.ts';

export interface SyncOptions {
  readonly deletes: boolean;
  readonly dryRun: boolean;
  /** Patterns of --exclude, in the syntax of ignore files. */
  readonly excludes: readonly string[];
}

/** The two sides, while there is a connection. */
export interface Sides {
  readonly source: Side;
  readonly destination: Side;
  /** The one of both that is behind the connection. */
  readonly remote: Side;
}

/** Makes a destination equal to a source, by comparing all of both or only what has changed. */
export class Sync {
  readonly #sides: Sides;
  readonly #options: SyncOptions;
  readonly #report: Report;
  /** The rules of the last complete pass. */
  #rules: IgnoreRules;
  /** What the last pass did not complete. The next pass compares it again. */
  #unfinished: SideChanges = COMPLETE;

  constructor(sides: Sides, options: SyncOptions, report: Report) {
    this.#sides = sides;
    this.#options = options;
    this.#report = report;
    this.#rules = new IgnoreRules(options.excludes);
  }

  /** The directories of the source that are ignored. */
  async ignoredDirectories(): Promise<readonly string[]> {
    const scanner = new Scanner(new IgnoreRules(this.#options.excludes), () => {});
    await scanner.source(this.#sides.source, new Map());
    return scanner.ignoredDirectories;
  }

  /** Compares all of both sides. Prints one line at the end. */
  async all(reason: PassReason): Promise<void> {
    const { source, destination } = this.#sides;
    this.#report.begin();
    const rules = new IgnoreRules(this.#options.excludes);
    const scanner = this.#scanner(rules);
    const wanted = new Map<string, Entry>();
    const current = new Map<string, Entry>();
    await scanner.source(source, wanted);
    const exists = await destination.isDirectory('');
    if (exists) await scanner.destination(destination, current, wanted);
    this.#rules = rules;
    const plan = planSync(wanted, current, this.#options);
    this.#refuseEmpty(isEmpty(wanted), plan);
    if (!exists && !this.#options.dryRun) await destination.makeRoot();
    await this.#apply(plan);
    this.#report.end(reason);
    this.#unfinished = this.#failures();
  }

  /** Compares what has changed and what the last pass did not complete. Prints one line if there was something to do. */
  async changed(reported: SideChanges): Promise<void> {
    const { changes, overflow } = combined(this.#unfinished, reported);
    // A pass that throws has completed nothing.
    this.#unfinished = { changes, overflow };
    const { source, destination } = this.#sides;
    const [hasSource, hasDestination] = await Promise.all([
      source.isDirectory(''),
      destination.isDirectory(''),
    ]);
    if (!hasSource) {
      throw new RunError(
        `${source.name} is gone, or is no directory any more; nothing is deleted; create it to continue, or end the command with Ctrl-C`,
        { kind: 'notFound' },
      );
    }
    // Another process has removed it.
    if (!hasDestination) return this.all('resync');
    if (overflow || [...changes.keys()].some((path) => this.#rules.dependsOn(path)))
      return this.all('resync');
    if (changes.size > COMPARED_CHANGES) return this.all('changes');
    this.#report.begin();
    const compared = new ChangedPaths(this.#sides, this.#rules, this.#scanner(this.#rules), this.#report);
    await compared.addAll(changes);
    const plan = planSync(compared.wanted, compared.current, this.#options);
    if (plan.deletions.length > 0) this.#refuseEmpty(await this.#isSourceEmpty(), plan);
    await this.#apply(plan);
    this.#report.end('changes');
    this.#unfinished = this.#failures();
  }

  #failures(): SideChanges {
    const changes = new Map(Array.from(this.#report.unfinished, (path) => [path, { isNew: true }]));
    return { changes, overflow: false };
  }

  #scanner(rules: IgnoreRules): Scanner {
    return new Scanner(rules, (path, error) => this.#report.failed(path, error));
  }

  #apply(plan: Plan): Promise<void> {
    return applyPlan(plan, { ...this.#sides, report: this.#report, dryRun: this.#options.dryRun });
  }

  async #isSourceEmpty(): Promise<boolean> {
    const [entries] = await this.#sides.source.list(['']);
    if (entries instanceof Error) throw entries;
    return entries!.every(({ name, entry }) => this.#rules.ignores(name, entry.kind === 'directory'));
  }

  /** An empty source is more often a disk that is not mounted than a wish to delete everything. */
  #refuseEmpty(isSourceEmpty: boolean, { deletions }: Plan): void {
    if (!isSourceEmpty || deletions.length === 0) return;
    const { source, destination } = this.#sides;
    throw new RunError(
      `${source.name} is empty, and --delete would delete everything in ${destination.name}; check the path, or delete it yourself`,
      { kind: 'emptySource' },
    );
  }
}

const COMPLETE: SideChanges = { changes: new Map(), overflow: false };

/** Beyond the limit everything is compared, so the paths do not matter. */
function combined(one: SideChanges, other: SideChanges): SideChanges {
  if (one.overflow || other.overflow) return { changes: new Map(), overflow: true };
  const changes = new Map(one.changes);
  for (const [path, { isNew }] of other.changes) {
    changes.set(path, { isNew: isNew || (changes.get(path)?.isNew ?? false) });
  }
  return { changes, overflow: changes.size > MAX_CHANGES };
}

/** The part of both trees that has changed. */
class ChangedPaths {
  readonly wanted = new Map<string, Entry>();
  readonly current = new Map<string, Entry>();
  readonly #sides: Sides;
  readonly #rules: IgnoreRules;
  readonly #scanner: Scanner;
  readonly #report: Report;
  /** By path: `both` for a directory on both sides, `whole` for what is compared with everything below it. */
  readonly #known = new Map<string, Promise<'both' | 'whole'>>();

  constructor(sides: Sides, rules: IgnoreRules, scanner: Scanner, report: Report) {
    this.#sides = sides;
    this.#rules = rules;
    this.#scanner = scanner;
    this.#report = report;
  }

  /** Adds paths, or the directories above them that are missing on one side. */
  async addAll(changes: SideChanges['changes']): Promise<void> {
    // A directory comes before its contents, which wait for it.
    await forEachBounded([...changes.keys()].sort(), CHANGE_COMPARISONS, async (path) => {
      const work = this.#add(path, changes.get(path)!.isNew);
      this.#known.set(path, work);
      await work;
    });
  }

  async #add(path: string, isNew: boolean): Promise<'both' | 'whole'> {
    try {
      for (const above of ancestorsOf(path)) {
        if (this.#rules.ignores(above, true) || (await this.#directory(above)) === 'whole') return 'whole';
      }
      return await this.#compare(path, isNew);
    } catch (error) {
      if (isFatal(error)) throw error;
      this.#report.failed(path, error as Error);
      return 'whole';
    }
  }

  #directory(path: string): Promise<'both' | 'whole'> {
    const known = this.#known.get(path) ?? this.#compareDirectory(path);
    this.#known.set(path, known);
    return known;
  }

  async #compareDirectory(path: string): Promise<'both' | 'whole'> {
    const { source, destination } = this.#sides;
    const [wanted, current] = await Promise.all([source.isDirectory(path), destination.isDirectory(path)]);
    return wanted && current ? 'both' : this.#compare(path, true);
  }

  async #compare(path: string, isNew: boolean): Promise<'both' | 'whole'> {
    const { source, destination } = this.#sides;
    const [wanted, current] = await Promise.all([source.stat(path), destination.stat(path)]);
    const isIgnored = this.#rules.ignores(path, true);
    const [entersWanted, entersCurrent] = [wanted, current].map(
      (entry) => entry?.kind === 'directory' && !isIgnored,
    );
    this.#set(this.wanted, path, wanted);
    this.#set(this.current, path, current);
    if (!isNew && entersWanted && entersCurrent) return 'both';
    if (entersWanted) await this.#scanner.source(source, this.wanted, path);
    if (entersCurrent) await this.#scanner.destination(destination, this.current, this.wanted, path);
    return 'whole';
  }

  #set(tree: Map<string, Entry>, path: string, entry: Entry | null): void {
    if (entry === null) return;
    const isIgnored = this.#rules.ignores(path, entry.kind === 'directory');
    tree.set(path, isIgnored ? { kind: 'ignored' } : entry);
  }
}

function isEmpty(tree: Tree): boolean {
  for (const entry of tree.values()) if (!isOpaque(entry)) return false;
  return true;
}
