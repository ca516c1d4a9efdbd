import { createHash } from 'node:crypto';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import { failedWith, isDiskFull } from '../../client/files/file-errors.ts';
import {
  COMPARED_BYTES,
  COMPARED_FILES,
  COPY_ATTEMPTS,
  LARGE_FILES,
  REQUESTS,
  SMALL_FILE_BYTES,
  SMALL_FILES,
} from './limits.ts';
import type { AttributeTask, FileTask, LinkTask, Plan } from './plan.ts';
import type { Report, Step } from './report.ts';
import { isFatal } from './scan.ts';
import { ChangedError, type Side } from './side.ts';
import { ancestorsOf, type Removal } from './tree.ts';

interface ApplyOptions {
  readonly source: Side;
  readonly destination: Side;
  /** The side behind the connection. Its hashes prove that every byte has arrived. */
  readonly remote: Side;
  readonly report: Report;
  readonly dryRun: boolean;
}

/** Carries a plan out. A failure of one path does not stop the others; a lost connection does. */
export async function applyPlan(plan: Plan, options: ApplyOptions): Promise<void> {
  await new Application(options).run(plan);
}

class Application {
  readonly #source: Side;
  readonly #destination: Side;
  readonly #remote: Side;
  readonly #report: Report;
  readonly #dryRun: boolean;
  /** Paths that could not be made, so nothing can be made below them, and why. */
  readonly #missing = new Map<string, string>();
  /** Paths that found no space. */
  readonly #withoutSpace: string[] = [];

  constructor({ source, destination, remote, report, dryRun }: ApplyOptions) {
    this.#source = source;
    this.#destination = destination;
    this.#remote = remote;
    this.#report = report;
    this.#dryRun = dryRun;
  }

  async run(plan: Plan): Promise<void> {
    const report = this.#report;
    report.count('unchanged', plan.unchanged);
    report.count('kept', plan.kept);
    for (const { path, reason } of plan.skipped) report.skipped(path, reason);
    for (const { path, reason } of plan.conflicts) report.failed(path, new Error(reason));
    const { copies, attributes } = await this.#compare(plan);
    const cleared = new Set(plan.clears.map(pathOf));
    const waits = (path: string) =>
      cleared.has(path) || ancestorsOf(path).some((above) => cleared.has(above));
    const parts = [false, true].map((isWaiting) => ({
      directories: plan.directories.filter((path) => waits(path) === isWaiting),
      copies: copies.filter(({ path }) => waits(path) === isWaiting),
      links: plan.links.filter(({ path }) => waits(path) === isWaiting),
    }));

    // A rename is a copy and a deletion. The old content is deleted only after everything was copied.
    await this.#make(parts[0]!);
    await this.#each(attributes, pathOf, (task) => this.#setAttributes(task));
    // A conflict concerns one name, which stays as it is.
    if (report.tally.failed <= plan.conflicts.length) await this.#remove(plan.clears, true);
    else for (const path of cleared) this.#missing.set(path, 'it waits, because something else failed');
    await this.#make(parts[1]!);
    if (this.#withoutSpace.length > 0) report.diskFull(this.#destination.name, this.#withoutSpace);
    if (report.tally.failed === 0) await this.#remove(plan.deletions, false);
    else if (plan.deletions.length > 0) report.notDeleted(plan.deletions.map(pathOf));
    for (const tasks of byDepth(plan.directoryModes, pathOf).reverse()) {
      const made = tasks.filter(({ path }) => this.#obstacleTo(path) === undefined);
      await this.#each(made, pathOf, (task) => this.#setAttributes(task, task.isNew));
    }
  }

  /** Makes directories, parents first, and what is in them. */
  async #make({ directories, copies, links }: NewEntries): Promise<void> {
    for (const paths of byDepth(directories, (path) => path)) {
      await this.#each(
        paths,
        (path) => path,
        async (path) => {
          await this.#do({ type: 'directory', path }, () => this.#destination.makeDirectory(path), true);
        },
      );
    }
    await this.#copyAll(copies);
    await this.#each(links, pathOf, ({ path, target }) =>
      this.#do({ type: 'link', path }, () => this.#destination.makeLink(path, target)),
    );
  }

  /** Decides about files with the same size and another time by their content. */
  async #compare({ comparisons, copies, attributes }: Plan): Promise<{
    readonly copies: readonly FileTask[];
    readonly attributes: readonly AttributeTask[];
  }> {
    const differing: FileTask[] = [];
    const equal: AttributeTask[] = [];
    for (const tasks of inParts(comparisons, ({ entry }) => entry.size)) {
      const paths = tasks.map(pathOf);
      const [wanted, current] = await Promise.all([this.#source.hash(paths), this.#destination.hash(paths)]);
      for (const [index, task] of tasks.entries()) {
        if (typeof wanted[index] !== 'string' || wanted[index] !== current[index]) differing.push(task);
        else equal.push(task);
      }
    }
    return { copies: [...copies, ...differing], attributes: [...attributes, ...equal] };
  }

  /** Large files take turns, so that the blocks in memory are few. Small ones wait for answers most of the time. */
  async #copyAll(tasks: readonly FileTask[]): Promise<void> {
    let pending = tasks;
    for (let round = 0; pending.length > 0; round++) {
      const sent: Sent[] = [];
      const copy = async (task: FileTask) => {
        const copied = await this.#copy(task);
        if (copied !== null) sent.push(copied);
      };
      const small = pending.filter(({ entry }) => entry.size <= SMALL_FILE_BYTES);
      const large = pending.filter(({ entry }) => entry.size > SMALL_FILE_BYTES);
      const crowdedOut: FileTask[] = [];
      const copySmall = async (task: FileTask) => {
        await copy(task).catch((error) => {
          if (large.length === 0 || !isDiskFull(error)) throw error;
          crowdedOut.push(task);
        });
      };
      await Promise.all([
        this.#each(small, pathOf, copySmall, SMALL_FILES),
        this.#each(large, pathOf, copy, LARGE_FILES),
      ]);
      // A large file that did not fit has taken all the space for a while.
      await this.#each(crowdedOut, pathOf, copy, SMALL_FILES);
      pending = await this.#verify(sent, round);
    }
  }

  /** Copies a file, again when it changes meanwhile. Returns null when there is nothing to verify. */
  async #copy({ path, entry: listed, attributes }: FileTask): Promise<Sent | null> {
    if (this.#dryRun) {
      this.#report.step({ type: 'copy', path, bytes: listed.size });
      return null;
    }
    let entry = listed;
    for (let attempt = 1; ; attempt++) {
      const hash = createHash('sha256');
      const blocks = hashing(this.#source.read(path, entry), (block) => hash.update(block));
      try {
        await this.#destination.replaceFile(
          path,
          { size: entry.size, blocks },
          { mode: entry.mode, mtimeMs: entry.mtimeMs },
        );
        return { task: { path, entry, attributes }, sha256: hash.digest('hex') };
      } catch (error) {
        if (!(error instanceof ChangedError || failedWith(error, 'brokenPipe')) || attempt === COPY_ATTEMPTS)
          throw error;
        const current = await this.#source.stat(path);
        // It is gone, so there is nothing to copy. A watch reports the deletion.
        if (current === null) return null;
        if (current.kind !== 'file') throw error;
        entry = current;
      }
    }
  }

  /** Compares what was sent with the file on the server's disk. Returns the files to copy again. */
  async #verify(sent: readonly Sent[], round: number): Promise<FileTask[]> {
    const again: FileTask[] = [];
    for (const part of inParts(sent, ({ task }) => task.entry.size)) {
      const found = await this.#remote.hash(part.map(({ task }) => task.path));
      for (const [index, { task, sha256 }] of part.entries()) {
        const { path, entry } = task;
        if (found[index] === sha256) this.#report.step({ type: 'copy', path, bytes: entry.size });
        else if (round + 1 < COPY_ATTEMPTS) again.push(task);
        else this.#report.failed(path, new Error('its copy differs from it; it may have changed meanwhile'));
      }
    }
    return again;
  }

  async #setAttributes({ path, attributes }: AttributeTask, isNew = false): Promise<void> {
    const set = () => this.#destination.setAttributes(path, attributes);
    // The mode of a new directory is a part of creating it.
    if (!isNew) await this.#do({ type: 'attributes', path }, set);
    else if (!this.#dryRun) await set();
  }

  async #remove(removals: readonly Removal[], isInTheWay: boolean): Promise<void> {
    for (const part of byDepth(removals, pathOf).reverse()) {
      await this.#each(part, pathOf, (removal) =>
        this.#do({ type: 'delete', path: removal.path }, () => this.#destination.remove(removal), isInTheWay),
      );
    }
  }

  /** Takes one step. `blocks`: nothing can be made at or below the path when it fails. */
  async #do(step: Step, work: () => Promise<void>, blocks = false): Promise<void> {
    try {
      if (!this.#dryRun) await work();
    } catch (error) {
      if (blocks) this.#missing.set(step.path, 'its directory could not be made');
      throw error;
    }
    this.#report.step(step);
  }

  /** Runs `work` for each item and reports its failures. Items at and below a path that could not be made fail with it. */
  async #each<T>(
    items: readonly T[],
    path: (item: T) => string,
    work: (item: T) => Promise<void>,
    limit = REQUESTS,
  ): Promise<void> {
    await forEachBounded(items, limit, async (item) => {
      const at = path(item);
      try {
        const obstacle = this.#obstacleTo(at);
        if (obstacle !== undefined) throw new Error(obstacle);
        await work(item);
      } catch (error) {
        if (isFatal(error)) throw error;
        const isFull = isDiskFull(error);
        if (isFull) this.#withoutSpace.push(at);
        this.#report.failed(at, error as Error, !isFull);
      }
    });
  }

  /** Why nothing can be made at a path. */
  #obstacleTo(path: string): string | undefined {
    if (this.#missing.size === 0) return undefined;
    const missing = [...ancestorsOf(path), path].find((at) => this.#missing.has(at));
    return missing === undefined ? undefined : this.#missing.get(missing);
  }
}

/** What the destination lacks. */
interface NewEntries {
  readonly directories: readonly string[];
  readonly copies: readonly FileTask[];
  readonly links: readonly LinkTask[];
}

/** A file that was copied, and the SHA-256 of what passed through this process. */
interface Sent {
  readonly task: FileTask;
  readonly sha256: string;
}

function pathOf({ path }: { readonly path: string }): string {
  return path;
}

async function* hashing(
  content: AsyncIterable<Uint8Array>,
  update: (block: Uint8Array) => void,
): AsyncGenerator<Uint8Array, void> {
  for await (const block of content) {
    update(block);
    yield block;
  }
}

/** Groups of items by the depth of their paths, from the highest on. */
function byDepth<T>(items: readonly T[], path: (item: T) => string): T[][] {
  const groups: T[][] = [];
  for (const item of items) {
    const depth = ancestorsOf(path(item)).length;
    groups[depth] ??= [];
    groups[depth].push(item);
  }
  return groups.filter((group) => group !== undefined);
}

function* inParts<T>(items: readonly T[], sizeOf: (item: T) => number): Generator<readonly T[]> {
  let part: T[] = [];
  let bytes = 0;
  for (const item of items) {
    part.push(item);
    bytes += sizeOf(item);
    if (part.length < COMPARED_FILES && bytes < COMPARED_BYTES) continue;
    yield part;
    part = [];
    bytes = 0;
  }
  if (part.length > 0) yield part;
}
