import type { Writable } from 'node:stream';
import type { TransferProgress } from '../../client/files/transfer-result.ts';
import { cutToWidth, visible } from '../terminal-text.ts';

/** Draws the progress of a transfer on one line of a terminal. */
export class ProgressLine {
  readonly #out: Writable & { readonly columns?: number };
  readonly #now: () => number;
  readonly #startedMs: number;
  #drawnMs = Number.NEGATIVE_INFINITY;
  #isDrawn = false;

  constructor(out: Writable, now = () => performance.now()) {
    this.#out = out;
    this.#now = now;
    this.#startedMs = now();
  }

  show(progress: TransferProgress): void {
    const now = this.#now();
    if (now - this.#drawnMs < DRAW_INTERVAL_MS) return;
    this.#drawnMs = now;
    const seconds = Math.max(0.001, (now - this.#startedMs) / 1000);
    const rate = Math.max(0, progress.bytes - progress.resumedBytes) / seconds;
    const text = [...progressParts(progress, rate), visible(progress.path)].join('  ');
    const columns = Math.max(20, this.#out.columns || DEFAULT_COLUMNS) - 1;
    this.#out.write(`\r${cutToWidth(text, columns)}\x1b[K`);
    this.#isDrawn = true;
  }

  clear(): void {
    if (this.#isDrawn) this.#out.write('\r\x1b[K');
    this.#isDrawn = false;
  }
}

const DRAW_INTERVAL_MS = 100;
/** Some terminals have no size. */
const DEFAULT_COLUMNS = 80;

/** How much is done, how fast, and how long the rest will take. */
export function progressParts(
  { files, bytes, totalFiles, totalBytes }: TransferProgress,
  bytesPerSecond: number,
): string[] {
  const rate = `${shownBytes(bytesPerSecond)}/s`;
  if (totalBytes === null || totalFiles === null) return [`${files} files`, shownBytes(bytes), rate];
  const percent = totalBytes === 0 ? 100 : Math.min(100, Math.floor((bytes / totalBytes) * 100));
  const left = bytesPerSecond > 0 ? Math.ceil(Math.max(0, totalBytes - bytes) / bytesPerSecond) : null;
  return [
    `${percent}%`,
    ...(totalFiles === 1 ? [] : [`${files}/${totalFiles} files`]),
    shownBytes(bytes),
    rate,
    `ETA ${left === null ? '-' : shownSeconds(left)}`,
  ];
}

/** A number of bytes for people. */
export function shownBytes(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}

function shownSeconds(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  const two = (value: number) => String(value).padStart(2, '0');
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];
