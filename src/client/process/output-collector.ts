import type { ExecProcess, LimitReason, LostEvent, OutputStream, ProcessState } from '../backend.ts';
import { signalOf } from './exit-signal.ts';
import { lossMarker, outputOf, type StreamGap, StreamGaps } from './output.ts';

/** The exit status and output of a program. A failed program is a result, not an error. */
export interface RunResult {
  /** 128 + n when signal n ended the program; null when it did not end in time. */
  readonly exitCode: number | null;
  /** The signal that the exit code stands for, if any. A program can also exit with such a code by itself. */
  readonly signal: string | null;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  /** Output of the terminal, when there is one. stdout and stderr are then empty. */
  readonly terminal: Uint8Array;
  /** The output as UTF-8 text. A marker line replaces lost output; the bytes above are joined at the gap. */
  readonly text: { readonly stdout: string; readonly stderr: string; readonly terminal: string };
  /** Whether any output is missing here: it exceeded `maxOutputBytes`, or it is lost. */
  readonly truncated: boolean;
  /** How many bytes are missing here. Lost output counts if its size is known. */
  readonly omittedBytes: number;
  /** Output that is lost because the server no longer retained it, usually after a long time without a connection. */
  readonly lost: readonly LostEvent[];
  /** Whether the program was terminated because of `timeoutMs`. */
  readonly timedOut: boolean;
  /** The limit of the server that ended the program, see `limits`; null when none did. */
  readonly reason: LimitReason | null;
  readonly sandboxDenied: boolean;
  readonly wallTimeMs: number;
}

/** Collects the first bytes of each output stream. */
export class OutputCollector {
  readonly #maxBytes: number;
  readonly #chunks: Record<OutputStream, Uint8Array[]> = { stdout: [], stderr: [], pty: [] };
  readonly #kept: Record<OutputStream, number> = { stdout: 0, stderr: 0, pty: 0 };
  readonly #lost: LostEvent[] = [];
  /** Gaps in the kept output, each with its offset in its stream. */
  readonly #marks: (StreamGap & { readonly at: number })[] = [];
  #omittedBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Resolves at the end of the process. */
  async collect(process: ExecProcess, signal: AbortSignal): Promise<void> {
    const gaps = new StreamGaps();
    const onLost = (lost: LostEvent) => {
      this.#lost.push(lost);
      this.#omittedBytes += lost.bytes ?? 0;
      this.#mark(gaps.at(lost));
    };
    for await (const { stream, bytes } of outputOf(process, { signal, onLost })) {
      this.#mark(gaps.before(stream));
      const kept = bytes.subarray(0, Math.max(0, this.#maxBytes - this.#kept[stream]));
      // An empty subarray would keep its whole buffer alive.
      if (kept.length > 0) this.#chunks[stream].push(kept);
      this.#kept[stream] += kept.length;
      this.#omittedBytes += bytes.length - kept.length;
    }
    this.#mark(gaps.atEnd());
  }

  result(state: ProcessState, times: Pick<RunResult, 'timedOut' | 'wallTimeMs'>): RunResult {
    const { exitCode, reason, sandboxDenied } = state;
    const [stdout, stderr, terminal] = [this.#joined('stdout'), this.#joined('stderr'), this.#joined('pty')];
    const text = (stream: OutputStream, bytes: Uint8Array) => this.#text(stream, bytes);
    return {
      exitCode,
      signal: signalOf(exitCode),
      reason,
      stdout,
      stderr,
      terminal,
      get text() {
        return {
          stdout: text('stdout', stdout),
          stderr: text('stderr', stderr),
          terminal: text('pty', terminal),
        };
      },
      truncated: this.#omittedBytes > 0 || this.#lost.length > 0,
      omittedBytes: this.#omittedBytes,
      lost: this.#lost,
      sandboxDenied,
      ...times,
    };
  }

  #mark(gaps: readonly StreamGap[]): void {
    for (const gap of gaps) this.#marks.push({ ...gap, at: this.#kept[gap.stream] });
  }

  #text(stream: OutputStream, bytes: Uint8Array): string {
    let text = '';
    let from = 0;
    for (const mark of this.#marks) {
      if (mark.stream !== stream) continue;
      text += asText(bytes.subarray(from, mark.at)) + lossMarker(mark.bytes);
      from = mark.at;
    }
    return text + asText(bytes.subarray(from));
  }

  #joined(stream: OutputStream): Uint8Array {
    const joined = new Uint8Array(this.#kept[stream]);
    let at = 0;
    for (const chunk of this.#chunks[stream]) {
      joined.set(chunk, at);
      at += chunk.length;
    }
    return joined;
  }
}

function asText(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}
