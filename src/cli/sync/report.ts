import { textOfName } from '../../files/native-path.ts';
import type { Host } from '../commands.ts';
import { visible, withoutErrorNumber } from '../terminal-text.ts';
import { COMPARED_CHANGES, NAMED_PATHS, SHOWN_FAILURES } from './limits.ts';
import { shownPath } from './tree.ts';

/** What a pass did, or would do with --dry-run. */
interface Tally {
  copied: number;
  bytes: number;
  directories: number;
  links: number;
  /** Entries whose mode or time was set. */
  updated: number;
  deleted: number;
  unchanged: number;
  /** Entries that only the destination has. */
  kept: number;
  skipped: number;
  failed: number;
}

/** What is done to one path. */
export type Step =
  | { readonly type: 'copy'; readonly path: string; readonly bytes: number }
  | { readonly type: 'directory' | 'link' | 'attributes' | 'delete'; readonly path: string };

/** Why a pass runs: the command has started, the source has changed, or changes may have been missed. */
export type PassReason = 'start' | 'changes' | 'resync';

interface ReportOptions {
  readonly json: boolean;
  readonly dryRun: boolean;
  readonly watch: boolean;
}

/** Prints what a command does: steps as JSON or with --dry-run, failures and one line for each pass. */
export class Report {
  readonly #host: Pick<Host, 'stdout' | 'stderr'>;
  readonly #options: ReportOptions;
  #tally = newTally();
  #named: string[] = [];
  #unfinished = new Set<string>();
  #shownFailures = 0;
  #startedAt = 0;

  constructor(host: Pick<Host, 'stdout' | 'stderr'>, options: ReportOptions) {
    this.#host = host;
    this.#options = options;
  }

  get tally(): Readonly<Tally> {
    return this.#tally;
  }

  /** Paths that failed in this pass or wait for others. Beyond the limit of changes there may be more. */
  get unfinished(): ReadonlySet<string> {
    return this.#unfinished;
  }

  begin(): void {
    this.#tally = newTally();
    this.#named = [];
    this.#unfinished = new Set();
    this.#shownFailures = 0;
    this.#startedAt = performance.now();
  }

  step(step: Step): void {
    this.#count(step);
    if (this.#named.length < NAMED_PATHS) this.#named.push(shownPath(step.path));
    if (this.#options.json) this.#json({ ...step, path: textOfName(step.path) });
    else if (this.#options.dryRun)
      this.#host.stdout.write(`${step.type.padEnd(10)} ${shownPath(step.path)}\n`);
  }

  count(name: 'unchanged' | 'kept', number: number): void {
    this.#tally[name] += number;
  }

  skipped(path: string, reason: string): void {
    this.#tally.skipped++;
    if (this.#options.json) this.#json({ type: 'skipped', path: textOfName(path), reason });
    else this.#host.stderr.write(`exec-server sync: skipped ${shownPath(path)}: ${reason}\n`);
  }

  /** A path that could not be synchronized. `isShown` false: another line for people says so. */
  failed(path: string, error: Error & { readonly kind?: string }, isShown = true): void {
    this.#tally.failed++;
    this.#addUnfinished(path);
    const { message, kind = 'failed' } = error;
    if (this.#options.json) this.#json({ type: 'failed', path: textOfName(path), code: kind, message });
    else if (isShown && ++this.#shownFailures <= SHOWN_FAILURES) {
      this.#host.stderr.write(
        `exec-server sync: ${shownPath(path)}: ${visible(withoutErrorNumber(message))}\n`,
      );
    }
  }

  /** One line for all paths that found no space in the destination. */
  diskFull(destination: string, [first, ...others]: readonly string[]): void {
    const more = others.length === 0 ? '' : ` and ${others.length} more`;
    this.notice(
      `${shownPath(first!)}${more}: no space left on the disk of ${destination}; free some space there`,
    );
  }

  /** Entries that would have been deleted if nothing had failed. */
  notDeleted(paths: readonly string[]): void {
    this.count('kept', paths.length);
    for (const path of paths) this.#addUnfinished(path);
    const entries = paths.length === 1 ? '1 entry to delete stays' : `${paths.length} entries to delete stay`;
    this.notice(`deleted nothing, because something failed; ${entries} until the next pass`);
  }

  /** Prints a line about the connection or the pass. */
  notice(message: string): void {
    if (this.#options.json) this.#json({ type: 'notice', message });
    else this.#host.stderr.write(`exec-server sync: ${visible(message)}\n`);
  }

  /** Prints the line of a pass. With --watch a pass because of changes that did nothing has none. */
  end(reason: PassReason): void {
    const { failed, skipped } = this.#tally;
    const isIdle = reason === 'changes' && this.#named.length === 0 && failed + skipped === 0;
    if (isIdle) return;
    const milliseconds = Math.round(performance.now() - this.#startedAt);
    if (this.#options.json) {
      const { dryRun } = this.#options;
      this.#json({ type: 'pass', reason, ...(dryRun && { dryRun }), ...this.#tally, milliseconds });
      return;
    }
    if (this.#shownFailures > SHOWN_FAILURES) {
      this.#host.stderr.write(`exec-server sync: ${failed} failures; --json prints all of them\n`);
    }
    const time = this.#options.watch ? `${new Date().toTimeString().slice(0, 8)} ` : '';
    // Before the counts: a list of paths behind them seems to belong to the last one.
    const names = this.#options.watch && reason === 'changes' ? this.#names() : '';
    this.#host.stdout.write(`${time}${names}${summaryOf(this.#tally, this.#options.dryRun)}\n`);
  }

  #count(step: Step): void {
    const tally = this.#tally;
    if (step.type === 'copy') {
      tally.copied++;
      tally.bytes += step.bytes;
    } else tally[COUNTERS[step.type]]++;
  }

  #addUnfinished(path: string): void {
    if (this.#unfinished.size <= COMPARED_CHANGES) this.#unfinished.add(path);
  }

  #names(): string {
    const { copied, directories, links, updated, deleted } = this.#tally;
    const more = copied + directories + links + updated + deleted - this.#named.length;
    if (this.#named.length === 0) return '';
    return `${this.#named.join(', ')}${more > 0 ? ` and ${more} more` : ''}: `;
  }

  #json(record: object): void {
    this.#host.stdout.write(`${JSON.stringify(record)}\n`);
  }
}

const COUNTERS = {
  directory: 'directories',
  link: 'links',
  attributes: 'updated',
  delete: 'deleted',
} as const;

function newTally(): Tally {
  return {
    copied: 0,
    bytes: 0,
    directories: 0,
    links: 0,
    updated: 0,
    deleted: 0,
    unchanged: 0,
    kept: 0,
    skipped: 0,
    failed: 0,
  };
}

/** Such as `2 files copied (1.5 KiB), 1 deleted, 40 unchanged`. */
export function summaryOf(tally: Readonly<Tally>, dryRun = false): string {
  const parts = [
    `${files(tally.copied)} ${dryRun ? 'to copy' : 'copied'}${tally.copied > 0 ? ` (${bytesText(tally.bytes)})` : ''}`,
    ...counted(
      tally.directories,
      dryRun ? 'directories to create' : 'directories created',
      dryRun ? 'directory to create' : 'directory created',
    ),
    ...counted(
      tally.links,
      dryRun ? 'links to create' : 'links created',
      dryRun ? 'link to create' : 'link created',
    ),
    ...counted(tally.updated, dryRun ? 'with another mode or time' : 'got another mode or time'),
    ...counted(tally.deleted, dryRun ? 'to delete' : 'deleted'),
    ...counted(tally.unchanged, 'unchanged'),
    ...counted(tally.kept, 'only in the destination'),
    ...counted(tally.skipped, 'skipped'),
    ...counted(tally.failed, 'failed'),
  ];
  return parts.join(', ');
}

function counted(number: number, many: string, one = many): string[] {
  return number === 0 ? [] : [`${number} ${number === 1 ? one : many}`];
}

function files(number: number): string {
  return number === 1 ? '1 file' : `${number} files`;
}

function bytesText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), units.length);
  return `${(bytes / 1024 ** power).toFixed(1)} ${units[power - 1]}`;
}
