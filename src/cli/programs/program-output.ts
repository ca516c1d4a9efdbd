import type { Writable } from 'node:stream';
import type { ExecProcess, LostEvent, OutputStream } from '../../client/backend.ts';
import { cannotWrite, isReaderGone, type RunError } from '../failures.ts';
import { FileWriter, withWholeWrites } from '../file-writer.ts';
import { visible } from '../terminal-text.ts';
import { LineTimes, timeText } from './line-times.ts';

/** How the run of a program ended. */
export interface ProgramExit {
  readonly exitCode: number;
  /** The limit that ended it. */
  readonly reason: string | null;
  readonly sandboxDenied: boolean;
}

/** Shows what happens with a program. */
export interface ProgramOutput {
  /** Resolves when the reader of stdout or stderr is gone, or when they cannot be written: see {@link failure}. */
  readonly readerGone: Promise<void>;
  /** Why stdout or stderr cannot be written; null when their readers are there or have ended. */
  readonly failure: RunError | null;
  started(ref: string | null, name: string | null): void;
  /** Resolves when more output may be written: a slow reader is waited for. The time is shown if there is one. */
  write(stream: OutputStream, seq: number, bytes: Uint8Array, timeMs?: number): Promise<void>;
  lost(event: LostEvent): void;
  /** The connection is lost, or back. */
  line(state: 'reconnecting' | 'reconnected', text: string): void;
  /** Something that a person should know. */
  note(text: string): void;
  exited(exit: ProgramExit): void;
  /** Resolves when everything is written. */
  flush(): Promise<void>;
}

/** Writes to stdout and stderr, and waits for slow readers. A reader that is gone is no error. */
export class StandardStreams {
  readonly readerGone: Promise<void>;
  failure: RunError | null = null;
  readonly #stdout: Writable;
  readonly #stderr: Writable;
  readonly #gone = new Set<Writable>();
  #reportGone = () => {};
  constructor(stdout: Writable, stderr: Writable) {
    this.#stdout = withWholeWrites(stdout);
    this.#stderr = withWholeWrites(stderr);
    this.readerGone = new Promise((resolve) => {
      this.#reportGone = resolve;
    });
    for (const stream of [this.#stdout, this.#stderr]) {
      stream.on('error', (error) => this.#fail(stream, error));
    }
  }

  toStdout(data: Uint8Array | string): Promise<void> {
    return this.#write(this.#stdout, data);
  }

  toStderr(data: Uint8Array | string): Promise<void> {
    return this.#write(this.#stderr, data);
  }

  async flush(): Promise<void> {
    for (const stream of [this.#stdout, this.#stderr]) await this.#flush(stream);
  }

  async #write(stream: Writable, data: Uint8Array | string): Promise<void> {
    if (this.#gone.has(stream)) return;
    await new Promise<void>((resolve) => {
      // Also called when the reader is gone, where `drain` never comes.
      if (stream.write(data, () => resolve())) resolve();
    });
  }

  async #flush(stream: Writable): Promise<void> {
    if (this.#gone.has(stream)) return;
    const error = await new Promise<Error | null | undefined>((resolve) => void stream.write('', resolve));
    if (error) this.#fail(stream, error);
  }

  #fail(stream: Writable, error: Error): void {
    if (stream instanceof FileWriter || !isReaderGone(error))
      this.failure ??= cannotWrite(stream === this.#stderr ? 'stderr' : 'stdout', error);
    this.#lose(stream);
  }

  #lose(stream: Writable): void {
    this.#gone.add(stream);
    this.#reportGone();
  }
}

/** Output as the program wrote it. Notes of this command go to stderr. */
export class PlainOutput implements ProgramOutput {
  readonly #streams: StandardStreams;
  readonly #newline: string;
  readonly #times = new Map<OutputStream, LineTimes>();

  /** On a terminal in raw mode a newline does not return to the first column. */
  constructor(streams: StandardStreams, isRaw: boolean) {
    this.#streams = streams;
    this.#newline = isRaw ? '\r\n' : '\n';
  }

  get readerGone(): Promise<void> {
    return this.#streams.readerGone;
  }

  get failure(): RunError | null {
    return this.#streams.failure;
  }

  started(): void {}

  write(stream: OutputStream, _seq: number, bytes: Uint8Array, timeMs?: number): Promise<void> {
    const text = timeMs === undefined ? bytes : this.#timesOf(stream).next(bytes, timeMs);
    return stream === 'stderr' ? this.#streams.toStderr(text) : this.#streams.toStdout(text);
  }

  lost({ fromSeq, bytes }: LostEvent): void {
    const lost = `${bytes ?? 'some'} bytes of output are lost ${fromSeq === 1 ? 'before this' : 'here'}`;
    this.note(`${lost}; the next line may lack its beginning`);
  }

  line(state: 'reconnecting' | 'reconnected', text: string): void {
    if (state === 'reconnecting') this.note(text);
  }

  exited(): void {}

  flush(): Promise<void> {
    return this.#streams.flush();
  }

  note(text: string): void {
    const start = this.#newline === '\n' ? '' : this.#newline;
    const lines = text.split('\n').map(visible).join(this.#newline);
    void this.#streams.toStderr(`${start}exec-server: ${lines}${this.#newline}`);
  }

  #timesOf(stream: OutputStream): LineTimes {
    const times = this.#times.get(stream) ?? new LineTimes();
    this.#times.set(stream, times);
    return times;
  }
}

/** One JSON object per line on stdout. Bytes that are not UTF-8 are in base64. */
export class JsonOutput implements ProgramOutput {
  readonly #streams: StandardStreams;
  readonly #texts = new Map<OutputStream, Utf8Splitter>();

  constructor(streams: StandardStreams) {
    this.#streams = streams;
  }

  get readerGone(): Promise<void> {
    return this.#streams.readerGone;
  }

  get failure(): RunError | null {
    return this.#streams.failure;
  }

  started(ref: string | null, name: string | null): void {
    void this.#print({ type: 'started', ref, name });
  }

  attached({ ref, name, role }: Pick<ExecProcess, 'ref' | 'name' | 'role'>): void {
    void this.#print({ type: 'attached', ref, name, role });
  }

  async write(stream: OutputStream, seq: number, bytes: Uint8Array, timeMs?: number): Promise<void> {
    const text = this.#texts.get(stream) ?? new Utf8Splitter();
    this.#texts.set(stream, text);
    const whole = text.next(bytes);
    const time = timeMs === undefined ? {} : { time: timeText(timeMs) };
    if (whole.length > 0) await this.#print({ type: 'output', seq, stream, ...time, ...asData(whole) });
  }

  lost({ fromSeq, toSeq, bytes }: LostEvent): void {
    this.#rest();
    void this.#print({ type: 'lost', fromSeq, toSeq, bytes });
  }

  line(state: 'reconnecting' | 'reconnected', reason: string): void {
    void this.#print({ type: state, ...(state === 'reconnecting' && { reason }) });
  }

  note(message: string): void {
    void this.#print({ type: 'note', message });
  }

  exited({ exitCode, reason, sandboxDenied }: ProgramExit): void {
    this.#rest();
    void this.#print({ type: 'exit', exitCode, reason, sandboxDenied });
  }

  flush(): Promise<void> {
    return this.#streams.flush();
  }

  /** Prints the remains of characters that will not be completed. */
  #rest(): void {
    for (const [stream, text] of this.#texts) {
      const rest = text.rest();
      if (rest.length > 0) void this.#print({ type: 'output', stream, ...asData(rest) });
    }
  }

  #print(value: object): Promise<void> {
    return this.#streams.toStdout(`${JSON.stringify(value)}\n`);
  }
}

/** Holds back the beginning of a character that the next bytes complete. */
class Utf8Splitter {
  #held: Buffer = Buffer.alloc(0);

  /** Returns what is complete. */
  next(bytes: Uint8Array): Buffer {
    const all = Buffer.concat([this.#held, bytes]);
    const end = all.length - unfinishedBytes(all);
    this.#held = all.subarray(end);
    return all.subarray(0, end);
  }

  rest(): Buffer {
    const held = this.#held;
    this.#held = Buffer.alloc(0);
    return held;
  }
}

/** How many bytes at the end are the beginning of a longer character: at most three. */
function unfinishedBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if ((byte & 0b1100_0000) === 0b1000_0000) continue;
    const length = byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return byte < 0xf8 && length > back ? back : 0;
  }
  return 0;
}

function asData(bytes: Buffer): { data: string; encoding?: 'base64' } {
  const data = bytes.toString('utf8');
  // A replacement character shows that something was not UTF-8.
  return data.includes('\uFFFD') && !Buffer.from(data, 'utf8').equals(bytes)
    ? { data: bytes.toString('base64'), encoding: 'base64' }
    : { data };
}
