import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { unlessAborted } from '../../base/abort.ts';
import { FairSemaphore } from '../../base/fair-semaphore.ts';
import type { Owner } from '../../base/fair-shares.ts';
import { refused, toFileError } from '../errors.ts';
import { SEARCH_CONCURRENCY, SEARCH_MAX_RESULTS, SEARCH_MAX_TIMEOUT_MS } from '../limits.ts';
import { type NativePath, systemPath } from '../native-path.ts';
import { startBuiltin } from './builtin-engine.ts';
import { Collector } from './collector.ts';
import { type EngineRun, EngineUnusable, type SearchTask } from './engine.ts';
import { PathFilter } from './path-filter.ts';
import { checkPattern } from './pattern.ts';
import {
  completeQuery,
  type EngineName,
  type SearchQuery,
  type SearchRequest,
  type SearchResult,
} from './query.ts';
import { findRipgrep, startRipgrep } from './ripgrep-engine.ts';

/** Programs of searches, instead of those that are found. */
interface SearchPrograms {
  readonly ripgrep?: string;
  /** The program of the builtin engine's thread. */
  readonly searchThread?: string;
}

/**
 * Finds lines in files, with ripgrep if it is installed, otherwise with a builtin engine. Both return the same result unless a
 * limit is reached. `pattern.ts` describes the regular expressions that both support.
 *
 * A search always returns in time. A process or thread that still hangs then, such as in a dead mount, keeps its slot until it
 * exits, so that they do not pile up.
 */
export class ContentSearch {
  readonly #slots = new FairSemaphore(SEARCH_CONCURRENCY);
  /** For the stat of the searched path: it may hang and occupy a thread of the shared pool. */
  readonly #stats = new FairSemaphore(SEARCH_CONCURRENCY);
  readonly #searchPath: string;
  readonly #programs: SearchPrograms;
  #ripgrep: Promise<string | null> | null = null;

  /** @param searchPath Directories where ripgrep may be, as in `PATH`. The first search looks for it once. */
  constructor(searchPath: string, programs: SearchPrograms = {}) {
    this.#searchPath = searchPath;
    this.#programs = programs;
  }

  /** Each owner has a fair share of the slots. Rejects with a FileError, or with the signal's reason when it is aborted. */
  async search(request: SearchRequest, signal: AbortSignal, owner: Owner = {}): Promise<SearchResult> {
    const query = completeQuery(request);
    checkQuery(query);
    const filter = new PathFilter(query);
    let collector = new Collector(query.maxResults);
    const end = new AbortController();
    const abort = () => end.abort(signal.reason);
    const timer = setTimeout(() => end.abort(TIMED_OUT), query.timeoutMs);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    let engine: EngineName = 'builtin';
    try {
      const engines = await unlessAborted(this.#engines(), end.signal);
      engine = engines[0]!.name;
      const isDirectory = await this.#locate(query.path, end.signal, owner);
      for (const candidate of engines) {
        engine = candidate.name;
        collector = new Collector(query.maxResults);
        const task = { query, filter, isDirectory, collector };
        if (await this.#completes(candidate, task, end.signal, owner)) break;
      }
    } catch (error) {
      if (error !== TIMED_OUT) throw error;
      collector.timeOut();
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    }
    const { truncated, unreadable, incompleteFiles } = collector;
    return { matches: collector.sorted(), truncated, incompleteFiles, unreadable, engine };
  }

  /** A stat that hangs keeps its slot, like a search. */
  async #locate(path: NativePath, signal: AbortSignal, owner: Owner): Promise<boolean> {
    const permit = await this.#stats.acquire(owner, signal);
    const located = locate(path).finally(() => permit.leave(owner));
    return await unlessAborted(located, signal);
  }

  /**
   * Searches when a slot is free. Returns false when the engine is unusable. The slot is released when the search has exited
   * completely.
   */
  async #completes(engine: Engine, task: SearchTask, signal: AbortSignal, owner: Owner): Promise<boolean> {
    const permit = await this.#slots.acquire(owner, signal);
    let run: EngineRun | null = null;
    try {
      run = engine.start(task);
      await unlessAborted(run.finished, signal);
      return true;
    } catch (error) {
      if (!(error instanceof EngineUnusable)) throw error;
      return false;
    } finally {
      run?.stop();
      void (run?.exited ?? Promise.resolve()).then(() => permit.leave(owner));
    }
  }

  /** The engines of this machine, the best first. */
  async #engines(): Promise<Engine[]> {
    const { ripgrep, searchThread = null } = this.#programs;
    this.#ripgrep ??= ripgrep === undefined ? findRipgrep(this.#searchPath) : Promise.resolve(ripgrep);
    const program = await this.#ripgrep;
    const builtin: Engine = { name: 'builtin', start: (task) => startBuiltin(task, searchThread) };
    if (program === null) return [builtin];
    return [{ name: 'ripgrep', start: (task) => startRipgrep(program, task) }, builtin];
  }
}

interface Engine {
  readonly name: EngineName;
  start(task: SearchTask): EngineRun;
}

/** The reason for ending a search at its time limit. */
const TIMED_OUT = new Error('the search timed out');

function checkQuery(query: SearchQuery): void {
  checkRange('maxResults', query.maxResults, SEARCH_MAX_RESULTS);
  checkRange('timeoutMs', query.timeoutMs, SEARCH_MAX_TIMEOUT_MS);
  checkPattern(query);
}

function checkRange(name: string, value: number, max: number): void {
  if (value < 1 || value > max) throw refused(`${name} must be between 1 and ${max}`);
}

/** Whether the path is a directory. Only directories and regular files can be searched. */
async function locate(path: NativePath): Promise<boolean> {
  try {
    const stats = await stat(systemPath(path));
    const isDirectory = stats.isDirectory();
    if (!isDirectory && !stats.isFile()) throw refused('path is neither a file nor a directory');
    await access(systemPath(path), isDirectory ? constants.R_OK | constants.X_OK : constants.R_OK);
    return isDirectory;
  } catch (error) {
    throw toFileError(error);
  }
}
