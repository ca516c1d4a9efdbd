import type { ProcessListener } from '../process/managed-process.ts';
import type { LimitReason } from '../process/resources/resource-limits.ts';
import type { StreamName } from '../process/spawn/spawner.ts';
import type { EventCode } from './asciicast.ts';
import { MAX_WAITING_CHARS, UNFINISHED_LINE_MS, VIEWER_MARKER_CHARS } from './limits.ts';
import type { FinishedFile, RecordingFile } from './recording-file.ts';
import { type MaskedText, SecretMask } from './secret-mask.ts';

export type RecordingState = 'recording' | 'complete' | 'incomplete';

/** A recording that has ended. */
export interface FinishedRecording extends FinishedFile {
  readonly recordingId: string;
  readonly path: string;
}

interface RecordingOptions {
  readonly recordingId: string;
  /** Whether the program runs on a terminal. The lines of others get the carriage returns that a terminal would add. */
  readonly tty: boolean;
  /** Whether what clients write to the program is recorded. */
  readonly input: boolean;
  ended(finished: FinishedRecording): void;
}

/**
 * Records one process. Receives its events, decodes and masks the text, and writes events in their order. Text whose line has not ended
 * waits a moment for the rest, so that secrets and characters that are split are found.
 */
export class Recording {
  readonly recordingId: string;
  readonly #file: RecordingFile;
  readonly #options: RecordingOptions;
  readonly #startedAt = performance.now();
  readonly #streams = new Map<StreamName | 'input', TextStream>();
  /** Events that wait for those before them. */
  #waiting: WaitingEvent[] = [];
  #waitingChars = 0;
  #timer: NodeJS.Timeout | null = null;
  #exitCode: number | null = null;
  #viewerMarkerChars = 0;
  #ending: Promise<void> | null = null;
  #finished: FinishedFile | null = null;

  constructor(file: RecordingFile, options: RecordingOptions) {
    this.recordingId = options.recordingId;
    this.#file = file;
    this.#options = options;
  }

  /** Bytes that are written. */
  get bytes(): number {
    return this.#file.bytes;
  }

  get path(): string {
    return this.#file.path;
  }

  /** Rejects when the file cannot be created. */
  get opened(): Promise<void> {
    return this.#file.opened;
  }

  /** `recording` until the file is closed; `incomplete` when output or the exit status is missing. */
  get state(): RecordingState {
    if (this.#finished === null) return 'recording';
    return this.#finished.complete ? 'complete' : 'incomplete';
  }

  /** Returns a listener that records the events of a process and forwards them. */
  watch(listener: ProcessListener): ProcessListener {
    return {
      output: (seq, stream, bytes) => {
        this.#text('o', stream, bytes);
        listener.output(seq, stream, bytes);
      },
      exited: (seq, exitCode, reason, denied) => {
        this.#exited(exitCode, reason, denied);
        listener.exited(seq, exitCode, reason, denied);
      },
      closed: (seq, reason) => {
        void this.end();
        listener.closed(seq, reason);
      },
    };
  }

  /** The terminal has another size. */
  resized(rows: number, cols: number): void {
    this.#event('r', `${cols}x${rows}`);
  }

  /** A client has written to the program. */
  written(bytes: Uint8Array): void {
    if (this.#options.input) this.#text('i', 'input', bytes);
  }

  marker(text: string): void {
    this.#event('m', text);
  }

  /** A viewer came or went. Says once that it stops when there were too many of these. */
  viewerMarker(text: string): void {
    if (this.#viewerMarkerChars > VIEWER_MARKER_CHARS) return;
    this.#viewerMarkerChars += text.length;
    this.marker(text);
    if (this.#viewerMarkerChars > VIEWER_MARKER_CHARS) this.marker('further viewers have no markers');
  }

  /** Shows other servers that the recording is live. */
  touch(): Promise<void> {
    return this.#file.touch();
  }

  /** Removes the recording of a program that did not start. */
  async discard(): Promise<void> {
    this.#stopTimer();
    await this.#file.discard();
  }

  /** Ends the recording. Resolves when its file is closed. */
  end(): Promise<void> {
    this.#ending ??= this.#finish();
    return this.#ending;
  }

  #exited(exitCode: number, reason: LimitReason | null, denied: boolean): void {
    this.#exitCode = exitCode;
    if (denied) this.marker('the sandbox denied an operation');
    if (reason !== null) this.marker(`ended by a limit: ${reason}`);
  }

  async #finish(): Promise<void> {
    for (const [name, stream] of this.#streams) {
      const rest = stream.end();
      if (rest !== '') this.#add(name === 'input' ? 'i' : 'o', stream.mask.add(rest));
    }
    this.#flush();
    this.#stopTimer();
    const end = this.#exitCode === null ? UNKNOWN_EXIT : ({ code: 'x', text: `${this.#exitCode}` } as const);
    this.#finished = await this.#file.finish({ atUs: this.#nowUs, ...end });
    const { recordingId, path } = this;
    this.#options.ended({ ...this.#finished, recordingId, path });
  }

  #text(code: EventCode, name: StreamName | 'input', bytes: Uint8Array): void {
    if (!this.#file.accepts) {
      if (code === 'o') this.#file.lose(bytes.length);
      // What comes next does not continue what came before.
      this.#flush();
      this.#streams.delete(name);
      return;
    }
    const stream = this.#stream(name);
    const text = stream.decode(bytes);
    if (text !== '') this.#add(code, stream.mask.add(text));
  }

  #event(code: EventCode, text: string): void {
    if (this.#ending !== null) return;
    this.#add(code, { ready: text, waiting: 0 });
  }

  #add(code: EventCode, text: MaskedText): void {
    const chars = text.waiting + text.ready.length;
    this.#waiting.push({ atUs: this.#nowUs, code, text, chars });
    this.#waitingChars += chars;
    this.#pass();
    if (this.#waitingChars > MAX_WAITING_CHARS) this.#flush();
    if (this.#waiting.length > 0) this.#startTimer();
  }

  /** Decides about all text, whatever follows it. */
  #flush(): void {
    for (const { mask } of this.#streams.values()) mask.flush();
    this.#pass();
  }

  /** Writes the events up to the first that waits. */
  #pass(): void {
    let passed = 0;
    for (const { atUs, code, text, chars } of this.#waiting) {
      const { ready } = text;
      text.ready = '';
      if (ready !== '') this.#file.append({ atUs, code, text: ready });
      if (text.waiting > 0) break;
      this.#waitingChars -= chars;
      passed++;
    }
    this.#waiting.splice(0, passed);
  }

  #stream(name: StreamName | 'input'): TextStream {
    let stream = this.#streams.get(name);
    if (stream === undefined) {
      stream = new TextStream(!this.#options.tty && name !== 'input');
      this.#streams.set(name, stream);
    }
    return stream;
  }

  get #nowUs(): number {
    return Math.round((performance.now() - this.#startedAt) * 1_000);
  }

  #startTimer(): void {
    this.#timer ??= setTimeout(() => this.#lineTimedOut(), UNFINISHED_LINE_MS).unref();
    this.#timer.refresh();
  }

  #lineTimedOut(): void {
    this.#timer = null;
    this.#flush();
  }

  #stopTimer(): void {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
  }
}

/** The last event of a recording whose program was still running. */
export const UNKNOWN_EXIT = { code: 'm', text: 'the server ended before the program' } as const;

interface WaitingEvent {
  readonly atUs: number;
  readonly code: EventCode;
  readonly text: MaskedText;
  readonly chars: number;
}

/** One stream of bytes as text. */
class TextStream {
  readonly mask = new SecretMask();
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #addsReturns: boolean;
  #endsWithReturn = false;

  constructor(addsReturns: boolean) {
    this.#addsReturns = addsReturns;
  }

  /** The text as a terminal shows it. Incomplete characters wait for their rest. Invalid bytes become U+FFFD. */
  decode(bytes: Uint8Array): string {
    if (bytes.length === 0) return '';
    const shown = this.#addsReturns ? withReturns(bytes, this.#endsWithReturn) : bytes;
    this.#endsWithReturn = bytes[bytes.length - 1] === RETURN;
    return this.#decoder.decode(shown, { stream: true });
  }

  /** What remains at the end: U+FFFD for an incomplete character. */
  end(): string {
    return this.#decoder.decode();
  }
}

/** Adds the carriage returns that line ends do not have. A loop over bytes takes a tenth of the time of a replacement in text. */
function withReturns(bytes: Uint8Array, followsReturn: boolean): Uint8Array {
  const shown = Buffer.allocUnsafe(2 * bytes.length);
  let length = 0;
  let before = followsReturn ? RETURN : 0;
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index]!;
    if (byte === NEWLINE && before !== RETURN) shown[length++] = RETURN;
    shown[length++] = byte;
    before = byte;
  }
  return shown.subarray(0, length);
}

const [NEWLINE, RETURN] = [10, 13];
