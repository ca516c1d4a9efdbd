import { createHash } from 'node:crypto';
import { type FileHandle, lstat, open, unlink } from 'node:fs/promises';
import { type CastEvent, type CastHeader, encodeEvent } from './asciicast.ts';
import { MAX_QUEUED_BYTES, RESERVED_BYTES, WRITE_BATCH_BYTES, WRITE_RETRY_MS } from './limits.ts';

/** Limits of one recording. */
interface RecordingFileLimits {
  readonly maxBytes: number;
  /** Whether all recordings together may take so many bytes more. */
  mayGrow(bytes: number): boolean;
}

/** A recording that has ended. */
export interface FinishedFile {
  readonly bytes: number;
  readonly sha256: string;
  /** Whether nothing is missing. */
  readonly complete: boolean;
  /** Whether the path no longer leads to the file. */
  readonly removed: boolean;
}

/** The beginning of the last marker of a recording that misses output. */
export const INCOMPLETE_MARKER = 'recording incomplete: ';

/**
 * A recording on the disk. Events are encoded immediately, which slows a fast program down, and written as whole lines, in order. Output
 * is lost when the queue is full because the disk is slow, and when a write fails. A marker then says how much. The size limit ends the
 * recording except for its exit status.
 */
export class RecordingFile {
  readonly path: string;
  /** Rejects when the file cannot be created. */
  readonly opened: Promise<void>;
  readonly #limits: RecordingFileLimits;
  readonly #hash = createHash('sha256');
  #handle: FileHandle | null = null;
  /** Bytes of whole lines, and the time of the last of them. */
  #size = 0;
  #writtenUs = 0;
  #queue: Line[] = [];
  /** Includes what is being written. */
  #queuedBytes = 0;
  /** The time of the last event that was added. */
  #lastUs = 0;
  #writing: Promise<void> | null = null;
  /** Until when nothing is written because a write has failed; 0 when none has. */
  #blockedUntil = 0;
  /** Output that was lost since the last marker. */
  #lost: Loss = { bytes: 0, because: '' };
  #totalLostBytes = 0;
  #isStopped = false;

  /** Creates the file with mode 0600 when its directory is ready. The file must not exist. */
  constructor(path: string, header: CastHeader, limits: RecordingFileLimits, directoryReady: Promise<void>) {
    this.path = path;
    this.#limits = limits;
    this.opened = directoryReady.then(() => this.#open(header));
    this.opened.catch(() => {});
  }

  /** Bytes in the file. */
  get bytes(): number {
    return this.#size;
  }

  /** Whether output can be added now. Output that is not added must be counted by {@link lose}. */
  get accepts(): boolean {
    if (this.#isStopped || this.#queuedBytes > MAX_QUEUED_BYTES) return false;
    return this.#blockedUntil === 0 || performance.now() >= this.#blockedUntil;
  }

  /** Counts output that is not recorded. */
  lose(bytes: number): void {
    this.#totalLostBytes += bytes;
    this.#count(bytes, this.#blockedUntil === 0 ? 'the disk is too slow' : this.#lost.because);
  }

  /** Adds an event behind the others. Does nothing once the recording has reached its limit. */
  append(event: CastEvent): void {
    if (this.#isStopped) return;
    if (this.#lost.bytes > 0) this.#add(this.#takeLossMarker(event.atUs));
    const { maxBytes } = this.#limits;
    const previousUs = this.#lastUs;
    const line = this.#encode(event);
    if (this.#size + this.#queuedBytes + line.bytes.length <= maxBytes - RESERVED_BYTES) {
      this.#add(line);
      return;
    }
    this.#lastUs = previousUs;
    this.lose(line.outputBytes);
    this.#stop(line.atUs, `it has ${maxBytes} bytes`);
  }

  /** Writes what is queued and the last events, and closes the file. Never rejects. */
  async finish(exit: CastEvent): Promise<FinishedFile> {
    await this.opened.catch(() => {});
    await this.#writing;
    const endings: Line[] = [];
    if (this.#lost.bytes > 0 && !this.#isStopped) endings.push(this.#takeLossMarker(exit.atUs));
    if (this.#totalLostBytes > 0) {
      const text = `${INCOMPLETE_MARKER}${missing(this.#totalLostBytes)}`;
      endings.push(this.#encode({ ...exit, code: 'm', text }));
    }
    const ended = await this.#write([...endings, this.#encode(exit)]);
    const removed = this.#handle !== null && !(await leadsTo(this.path, this.#handle));
    await this.#handle?.close().catch(() => {});
    const complete = ended && exit.code === 'x' && this.#totalLostBytes === 0 && !removed;
    return { bytes: this.#size, sha256: this.#hash.digest('hex'), complete, removed };
  }

  /** Sets the time of the last change to now. Never rejects. */
  async touch(): Promise<void> {
    const now = new Date();
    await this.#handle?.utimes(now, now).catch(() => {});
  }

  /** Removes the file of a program that did not start. Never rejects. */
  async discard(): Promise<void> {
    this.#isStopped = true;
    await this.opened.catch(() => {});
    await this.#writing;
    if (this.#handle === null) return;
    await this.#handle.close().catch(() => {});
    await unlink(this.path).catch(() => {});
  }

  async #open(header: CastHeader): Promise<void> {
    const handle = await open(this.path, 'wx', 0o600);
    try {
      await this.#put(handle, Buffer.from(`${JSON.stringify(header)}\n`));
    } catch (error) {
      await handle.close().catch(() => {});
      await unlink(this.path).catch(() => {});
      throw error;
    }
    this.#handle = handle;
  }

  #encode(event: CastEvent, lostBytes?: number): Line {
    const bytes = Buffer.from(encodeEvent(event, this.#lastUs));
    this.#lastUs = event.atUs;
    const outputBytes = event.code === 'o' ? Buffer.byteLength(event.text) : 0;
    return { bytes, atUs: event.atUs, outputBytes, lostBytes };
  }

  #add(line: Line): void {
    this.#queue.push(line);
    this.#queuedBytes += line.bytes.length;
    this.#writing ??= this.#flush();
  }

  /** Ends the recording with a marker. There is space for it. */
  #stop(atUs: number, because: string): void {
    this.#isStopped = true;
    this.#add(this.#encode({ atUs, code: 'm', text: `recording stopped at its limit: ${because}` }));
  }

  async #flush(): Promise<void> {
    try {
      // Also lets the other events of this turn of the event loop come first, so that they are written together.
      await this.opened;
      while (this.#queue.length > 0) await this.#writeBatch(this.#takeBatch());
    } catch (error) {
      this.#isStopped = true;
      this.#drop([], (error as Error).message);
    }
    this.#writing = null;
  }

  #takeBatch(): Line[] {
    let bytes = 0;
    let count = 0;
    while (count < this.#queue.length && bytes < WRITE_BATCH_BYTES)
      bytes += this.#queue[count++]!.bytes.length;
    return this.#queue.splice(0, count);
  }

  async #writeBatch(lines: readonly Line[]): Promise<void> {
    const bytes = lines.reduce((sum, line) => sum + line.bytes.length, 0);
    if (this.#isStopped || this.#limits.mayGrow(bytes)) {
      if (await this.#write(lines)) this.#queuedBytes -= bytes;
      return;
    }
    const because = 'all recordings together take too much space';
    this.#drop(lines, because);
    this.#stop(lines[0]!.atUs, because);
  }

  /** Returns false when the write has failed. */
  async #write(lines: readonly Line[]): Promise<boolean> {
    if (this.#handle === null) return false;
    try {
      await this.#put(this.#handle, Buffer.concat(lines.map(({ bytes }) => bytes)));
      this.#writtenUs = lines.at(-1)!.atUs;
      this.#blockedUntil = 0;
      return true;
    } catch (error) {
      this.#drop(lines, (error as Error).message);
      this.#blockedUntil = performance.now() + WRITE_RETRY_MS;
      await this.#replacePart(this.#handle, lines.at(-1)!.atUs);
      return false;
    }
  }

  /** Removes the part that a failed write has left. On a full disk the marker takes its place: the disk has no other. */
  async #replacePart(handle: FileHandle, atUs: number): Promise<void> {
    const marker = this.#takeLossMarker(atUs);
    try {
      await this.#put(handle, marker.bytes);
      this.#writtenUs = atUs;
    } catch (error) {
      this.#drop([marker], (error as Error).message);
    }
    await handle.truncate(this.#size).catch(() => {});
  }

  async #put(handle: FileHandle, bytes: Buffer): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, this.#size + done);
      done += bytesWritten;
    }
    this.#hash.update(bytes);
    this.#size += bytes.length;
  }

  /** Drops lines, and those that are queued behind them. The next event counts its time from the last one in the file. */
  #drop(lines: readonly Line[], because: string): void {
    for (const { outputBytes, lostBytes } of [...lines, ...this.#queue]) {
      // A loss that has a marker already was counted then.
      this.#totalLostBytes += outputBytes;
      this.#count(outputBytes + (lostBytes ?? 0), because);
    }
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#lastUs = this.#writtenUs;
  }

  #count(bytes: number, because: string): void {
    this.#lost = { bytes: this.#lost.bytes + bytes, because: because || this.#lost.because };
  }

  #takeLossMarker(atUs: number): Line {
    const { bytes, because } = this.#lost;
    this.#lost = { bytes: 0, because };
    return this.#encode({ atUs, code: 'm', text: `${missing(bytes)}: ${because}` }, bytes);
  }
}

/** An encoded event. */
interface Line {
  readonly bytes: Buffer;
  readonly atUs: number;
  /** The output in it. */
  readonly outputBytes: number;
  /** What a marker says that is missing. */
  readonly lostBytes?: number | undefined;
}

interface Loss {
  readonly bytes: number;
  readonly because: string;
}

async function leadsTo(path: string, handle: FileHandle): Promise<boolean> {
  const [there, own] = await Promise.all([lstat(path).catch(() => null), handle.stat().catch(() => null)]);
  return there !== null && own !== null && there.ino === own.ino && there.dev === own.dev;
}

function missing(bytes: number): string {
  return `${bytes} bytes of output are missing`;
}
