import { chmod, lstat, mkdir, readdir, stat, unlink } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { Semaphore } from '../base/semaphore.ts';
import { withTimeout } from '../base/with-timeout.ts';
import type { Logger } from '../observability/log.ts';
import type { CastHeader } from './asciicast.ts';
import { CACHED_HEADERS, CLOSE_TIMEOUT_MS, CONCURRENT_READS, LIVE_MS, RETENTION_CHECK_MS } from './limits.ts';
import { type FinishedRecording, Recording, type RecordingState } from './recording.ts';
import { describeFile, type FileDescription, openRecording } from './recording-description.ts';
import { RecordingFile } from './recording-file.ts';

interface RecordingStoreOptions {
  /** Empty for {@link defaultDirectory}. */
  readonly directory: string;
  readonly maxRecordingBytes: number;
  /** What all recordings may take. */
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  readonly log: Logger;
}

/** A program to record. */
interface RecordedProgram {
  readonly header: CastHeader;
  readonly ref: string;
  readonly tty: boolean;
  readonly input: boolean;
  ended(finished: FinishedRecording): void;
}

/** A recording in the directory. */
export interface StoredRecording extends FileDescription {
  readonly recordingId: string;
  readonly path: string;
  readonly state: RecordingState;
}

/**
 * The recordings of a server: a directory of files that only its user can read. Removes the old ones, and the oldest of the owner that
 * has most when they take too much space. Several servers may share a directory: none removes what another one still records.
 */
export class RecordingStore {
  readonly directory: string;
  readonly #options: RecordingStoreOptions;
  readonly #live = new Map<string, Recording>();
  readonly #described = new Map<string, FileDescription>();
  /** Clients that list and read must not occupy all threads of the process. */
  readonly #readers = new Semaphore(CONCURRENT_READS);
  /** Bytes of the recordings that have ended, when they were last counted. */
  #endedBytes = 0;
  #retaining: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: RecordingStoreOptions) {
    this.#options = options;
    this.directory = options.directory === '' ? defaultDirectory(process.env) : resolve(options.directory);
  }

  /** Starts to record a program. */
  record({ header, ref, tty, input, ended }: RecordedProgram): Recording {
    const recordingId = `${new Date().toISOString().replace(/[-:.]/g, '')}-${ref}`;
    const limits = {
      maxBytes: this.#options.maxRecordingBytes,
      mayGrow: (bytes: number) => this.#mayGrow(bytes),
    };
    const file = new RecordingFile(this.#pathOf(recordingId), header, limits, this.prepare());
    const recording = new Recording(file, {
      recordingId,
      tty,
      input,
      ended: (finished) => {
        this.#live.delete(recordingId);
        if (finished.removed) {
          this.#options.log.warn('a recording was removed before its program ended', { path: finished.path });
        }
        this.#retain();
        ended(finished);
      },
    });
    this.#live.set(recordingId, recording);
    void recording.opened.then(
      () => this.#retain(),
      () => this.#live.delete(recordingId),
    );
    return recording;
  }

  /** Removes a recording whose program did not start. */
  async discard(recording: Recording): Promise<void> {
    this.#live.delete(recording.recordingId);
    await recording.discard();
  }

  /** Creates the directory, which may have been removed meanwhile. Rejects with an Error that says how to fix it when others could read it. */
  prepare(): Promise<void> {
    return prepareDirectory(this.directory);
  }

  /** Ids of all recordings, the oldest first. */
  async ids(): Promise<string[]> {
    const names = await readdir(this.directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    const ids = names
      .filter((name) => name.endsWith(EXTENSION))
      .map((name) => name.slice(0, -EXTENSION.length));
    return ids.filter((id) => ID.test(id)).sort();
  }

  /** Describes a recording; null when there is none, or its file is not a recording. */
  async find(recordingId: string): Promise<StoredRecording | null> {
    if (!ID.test(recordingId)) return null;
    const path = this.#pathOf(recordingId);
    const live = this.#live.get(recordingId);
    const known = this.#described.get(recordingId);
    const description = await this.#limited(() => describeFile(path, known ?? null));
    if (description === null) {
      this.#described.delete(recordingId);
      return null;
    }
    this.#remember(recordingId, description);
    const { bytes, complete } = description;
    return {
      ...description,
      recordingId,
      path,
      bytes: live?.bytes ?? bytes,
      state: live?.state ?? (complete ? 'complete' : 'incomplete'),
    };
  }

  /** Reads bytes of a recording. Empty at its end; null when it was removed. */
  async read({ path, bytes }: StoredRecording, offset: number, maxBytes: number): Promise<Buffer | null> {
    const length = Math.max(0, Math.min(maxBytes, bytes - offset));
    if (length === 0) return Buffer.alloc(0);
    return this.#limited(async () => {
      const handle = await openRecording(path);
      if (handle === null) return null;
      try {
        const buffer = Buffer.allocUnsafe(length);
        const { bytesRead } = await handle.read(buffer, 0, length, offset);
        return buffer.subarray(0, bytesRead);
      } finally {
        await handle.close();
      }
    });
  }

  /** Ends the recordings that are still open. Waits a limited time for the disk. */
  async close(): Promise<void> {
    clearInterval(this.#timer ?? undefined);
    const ending = [...this.#live.values()].map((recording) => recording.end());
    await withTimeout(Promise.all([...ending, this.#retaining]), CLOSE_TIMEOUT_MS, { unref: true });
  }

  async #limited<Result>(work: () => Promise<Result>): Promise<Result> {
    await this.#readers.acquire();
    try {
      return await work();
    } finally {
      this.#readers.release();
    }
  }

  #pathOf(recordingId: string): string {
    return join(this.directory, recordingId + EXTENSION);
  }

  get #liveBytes(): number {
    let bytes = 0;
    for (const recording of this.#live.values()) bytes += recording.bytes;
    return bytes;
  }

  /** Whether there is space, or will be when recordings that have ended are removed. */
  #mayGrow(bytes: number): boolean {
    const liveBytes = this.#liveBytes + bytes;
    if (liveBytes > this.#options.maxBytes) return false;
    if (liveBytes + this.#endedBytes > this.#options.maxBytes) this.#retain();
    return true;
  }

  #check(): void {
    for (const recording of this.#live.values()) void recording.touch();
    this.#retain();
  }

  #retain(): void {
    this.#timer ??= setInterval(() => this.#check(), RETENTION_CHECK_MS).unref();
    this.#retaining ??= this.#removeOld()
      .catch((error: Error) =>
        this.#options.log.warn('cannot remove old recordings', { reason: error.message }),
      )
      .finally(() => {
        this.#retaining = null;
      });
  }

  async #removeOld(): Promise<void> {
    const { maxAgeMs, maxBytes } = this.#options;
    const kept: EndedFile[] = [];
    for (const id of await this.ids()) {
      if (this.#live.has(id)) continue;
      const status = await lstat(this.#pathOf(id)).catch(() => null);
      if (!status?.isFile()) continue;
      const ageMs = Date.now() - status.mtimeMs;
      // Another server may still write it. It counts when it has ended: what others write must not push out what has ended.
      if (ageMs < LIVE_MS && (await this.find(id))?.ended === false) continue;
      if (ageMs > maxAgeMs) await this.#remove(id);
      else kept.push({ id, bytes: status.size });
    }
    let total = kept.reduce((sum, { bytes }) => sum + bytes, 0);
    const allowed = maxBytes - this.#liveBytes;
    if (total > allowed) total = await this.#removeOldest(kept, total, allowed);
    this.#endedBytes = total;
  }

  async #removeOldest(kept: readonly EndedFile[], before: number, allowed: number): Promise<number> {
    let total = before;
    const owners = new Map<string, { bytes: number; readonly oldest: EndedFile[] }>();
    for (const file of kept) {
      const owner = (await this.find(file.id))?.header.exec_server?.owner ?? '';
      const of = owners.get(owner) ?? { bytes: 0, oldest: [] };
      owners.set(owner, of);
      of.bytes += file.bytes;
      of.oldest.push(file);
    }
    while (total > allowed) {
      const [most] = [...owners.values()].sort((a, b) => b.bytes - a.bytes);
      const file = most?.oldest.shift();
      if (most === undefined || file === undefined) break;
      await this.#remove(file.id);
      most.bytes -= file.bytes;
      total -= file.bytes;
    }
    return total;
  }

  async #remove(id: string): Promise<void> {
    this.#described.delete(id);
    await unlink(this.#pathOf(id)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }

  #remember(id: string, description: FileDescription): void {
    const [oldest] = this.#described.keys();
    if (oldest !== undefined && this.#described.size >= CACHED_HEADERS) this.#described.delete(oldest);
    this.#described.set(id, description);
  }
}

interface EndedFile {
  readonly id: string;
  readonly bytes: number;
}

const EXTENSION = '.cast';
/** A time and a reference. */
const ID = /^\d{8}T\d{9}Z-[0-9a-z]{1,32}$/;

/** Where recordings are when no directory is configured. */
export function defaultDirectory(env: Readonly<Record<string, string | undefined>>): string {
  const { XDG_STATE_HOME: state = '' } = env;
  return join(isAbsolute(state) ? state : join(home(), '.local', 'state'), 'exec-server', 'recordings');
}

/** The home of this user. A user that the system does not know has none, and gets that of such users in containers. */
function home(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}

async function prepareDirectory(directory: string): Promise<void> {
  const created = await mkdir(directory, { recursive: true, mode: 0o700 });
  // The umask may have taken more away.
  if (created !== undefined) await chmod(directory, 0o700);
  const { uid, mode } = await stat(directory);
  if (uid !== process.geteuid!()) {
    throw new Error(`${directory} belongs to another user; choose a directory of your own`);
  }
  if ((mode & 0o077) !== 0) {
    throw new Error(`other users can open ${directory}; run: chmod 700 ${directory}`);
  }
}
