import type { ExecProcess, LostEvent, OutputStream, ProcessState } from '../backend.ts';
import { outputOf } from './output.ts';
import type { Outcome } from './run.ts';

/** Keeps the first bytes of each stream. */
export class OutputCollector {
  readonly #maxBytes: number;
  readonly #pieces: Record<OutputStream, Uint8Array[]> = { stdout: [], stderr: [], pty: [] };
  readonly #kept: Record<OutputStream, number> = { stdout: 0, stderr: 0, pty: 0 };
  readonly #lost: LostEvent[] = [];
  #omittedBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Resolves at the end of the process. */
  async collect(process: ExecProcess, signal: AbortSignal): Promise<void> {
    const output = outputOf(process, { signal, onLost: (lost) => this.#lost.push(lost) });
    for await (const { stream, bytes } of output) {
      const kept = bytes.subarray(0, Math.max(0, this.#maxBytes - this.#kept[stream]));
      // An empty piece would keep the memory that it is cut from.
      if (kept.length > 0) this.#pieces[stream].push(kept);
      this.#kept[stream] += kept.length;
      this.#omittedBytes += bytes.length - kept.length;
    }
  }

  outcome(state: ProcessState, times: Pick<Outcome, 'timedOut' | 'wallTimeMs'>): Outcome {
    const { exitCode, sandboxDenied } = state;
    const [stdout, stderr, terminal] = [this.#joined('stdout'), this.#joined('stderr'), this.#joined('pty')];
    return {
      exitCode,
      signal: exitCode === null ? null : (SIGNALS[exitCode - 128] ?? null),
      stdout,
      stderr,
      terminal,
      get text() {
        return { stdout: asText(stdout), stderr: asText(stderr), terminal: asText(terminal) };
      },
      omittedBytes: this.#omittedBytes,
      lost: this.#lost,
      sandboxDenied,
      ...times,
    };
  }

  #joined(stream: OutputStream): Uint8Array {
    const joined = new Uint8Array(this.#kept[stream]);
    let at = 0;
    for (const piece of this.#pieces[stream]) {
      joined.set(piece, at);
      at += piece.length;
    }
    return joined;
  }
}

/** Signals that are the same on every system and end programs. */
const SIGNALS: Readonly<Record<number, string>> = {
  1: 'SIGHUP',
  2: 'SIGINT',
  3: 'SIGQUIT',
  4: 'SIGILL',
  6: 'SIGABRT',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  13: 'SIGPIPE',
  14: 'SIGALRM',
  15: 'SIGTERM',
};

function asText(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}
