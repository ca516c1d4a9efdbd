import { randomHex } from '../../base/random-hex.ts';
import type {
  CallOptions,
  ExecBackend,
  ExecProcess,
  LostEvent,
  OutputStream,
  ProcessState,
  StartParams,
} from '../backend.ts';
import { CallLimit, Deadline } from '../connection/call-limit.ts';
import { checkBytes } from '../connection/option-checks.ts';
import { ClientError } from '../errors.ts';
import { INPUT_CHUNK_BYTES, RUN_END_TIMEOUT_MS, RUN_MAX_OUTPUT_BYTES } from '../limits.ts';
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
  /** Whether the program was terminated because of the timeout. */
  readonly timedOut: boolean;
  readonly sandboxDenied: boolean;
  readonly wallTimeMs: number;
}

export interface CollectOptions {
  /** An abort terminates the program and rejects. */
  readonly signal?: AbortSignal;
  /**
   * Terminates the program after this time. With `run`, the start has the same timeout and rejects when it is
   * exceeded.
   */
  readonly timeoutMs?: number;
  /** Bytes to keep of each stream, from its beginning. Further bytes are only counted. */
  readonly maxOutputBytes?: number;
}

export interface RunOptions extends CollectOptions {
  /** Input for stdin; without it stdin is empty. */
  readonly input?: Uint8Array | string;
  /**
   * With an argv: working directory as a `file:` URI. Defaults to the backend's `defaultCwd`, or to `/` if it
   * reports none.
   */
  readonly cwd?: string;
  /** With an argv: environment variables, added to those of the server. */
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Runs a program until it ends. Rejects when it cannot be started or followed, and then terminates it if possible.
 */
export async function run(
  backend: ExecBackend,
  program: readonly string[] | StartParams,
  options: RunOptions = {},
): Promise<RunResult> {
  checkBytes('maxOutputBytes', options.maxOutputBytes);
  const startedAt = performance.now();
  const deadline = new Deadline({ signal: options.signal, timeoutMs: options.timeoutMs });
  const params = isArgv(program) ? await startParams(backend, program, options, deadline) : program;
  const process = await backend.start(params, deadline.remaining);
  try {
    return await collectRun(process, options.input, options, startedAt);
  } catch (error) {
    process.terminate().catch(() => {});
    throw error;
  }
}

/**
 * Waits until a process has exited and all its output has arrived (`closed`), or only until it has exited. Rejects
 * when the process can no longer be followed.
 */
export async function wait(
  process: ExecProcess,
  options: CallOptions & { readonly until?: 'exited' | 'closed' } = {},
): Promise<ProcessState> {
  const { until = 'closed' } = options;
  const limit = new CallLimit(`waiting for process ${process.processId}`, options);
  let stop = () => {};
  const ended = new Promise<ProcessState>((resolve, reject) => {
    const check = () => {
      const { state } = process;
      if (state.failure !== null && !state[until]) reject(state.failure);
      else if (state[until]) resolve(state);
    };
    stop = process.onChange(check);
    check();
  });
  try {
    return await limit.race(ended);
  } finally {
    stop();
    limit.end();
  }
}

/**
 * Writes the input, closes stdin, and collects the output until the process ends. A program that does not read all
 * its input is no error. Without input, stdin stays open.
 */
export function communicate(
  process: ExecProcess,
  input: Uint8Array | string | undefined,
  options: CollectOptions = {},
): Promise<RunResult> {
  return collectRun(process, input, options, performance.now());
}

async function collectRun(
  process: ExecProcess,
  input: Uint8Array | string | undefined,
  { signal, timeoutMs, maxOutputBytes = RUN_MAX_OUTPUT_BYTES }: CollectOptions,
  startedAt: number,
): Promise<RunResult> {
  checkBytes('maxOutputBytes', maxOutputBytes);
  const limit = new CallLimit(`process ${process.processId}`, { signal, timeoutMs });
  const collector = new OutputCollector(maxOutputBytes);
  const stop = new AbortController();
  const collecting = collector.collect(process, stop.signal).then(() => stop.abort());
  const writing = input === undefined ? Promise.resolve() : writeInput(process, input, stop.signal);
  let timedOut = false;
  try {
    await limit.race(Promise.all([collecting, writing]));
  } catch (error) {
    if (limit.signal?.aborted) await terminateAndCollect(process, collecting);
    timedOut = error instanceof ClientError && error.kind === 'timeout' && error === limit.signal?.reason;
    if (!timedOut) throw error;
  } finally {
    limit.end();
    stop.abort();
    await Promise.allSettled([collecting, writing]);
  }
  return collector.result(process.state, { timedOut, wallTimeMs: performance.now() - startedAt });
}

async function startParams(
  backend: ExecBackend,
  program: readonly string[],
  { input, cwd, env = {} }: RunOptions,
  deadline: Deadline,
): Promise<StartParams> {
  return {
    processId: `run-${randomHex()}`,
    argv: [...program],
    cwd: cwd ?? (await backend.defaultCwd?.(deadline.remaining)) ?? 'file:///',
    env: { ...env },
    // The environment of a program that was started by hand on the server.
    envPolicy: { inherit: 'all', ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] },
    tty: false,
    pipeStdin: input !== undefined,
  };
}

function isArgv(program: readonly string[] | StartParams): program is readonly string[] {
  return Array.isArray(program);
}

/**
 * Writes the input in chunks. Each waits for the answer to the one before, because the server answers only as fast
 * as the program reads.
 */
async function writeInput(
  process: ExecProcess,
  input: Uint8Array | string,
  signal: AbortSignal,
): Promise<void> {
  const bytes = typeof input === 'string' ? new TextEncoder().encode(input) : input;
  try {
    for (let at = 0; at < bytes.length; at += INPUT_CHUNK_BYTES) {
      const status = await process.write(bytes.subarray(at, at + INPUT_CHUNK_BYTES), { signal });
      if (status !== 'accepted') return;
    }
    await process.closeStdin({ signal });
  } catch (error) {
    // The end of the process explains more than the write that failed because of it.
    if (!process.state.exited && !signal.aborted) throw error;
  }
}

/** Terminates the process and waits briefly for its remaining output. */
async function terminateAndCollect(process: ExecProcess, collecting: Promise<void>): Promise<void> {
  const limit = new CallLimit('terminating the process', { timeoutMs: RUN_END_TIMEOUT_MS });
  try {
    // `terminate` has no timeout: during a recovery it is sent later, so that no program stays behind.
    await limit.race(process.terminate());
    await limit.race(collecting);
  } catch {
    // The termination was requested; the client can do no more.
  } finally {
    limit.end();
  }
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
    const { exitCode, sandboxDenied } = state;
    const [stdout, stderr, terminal] = [this.#joined('stdout'), this.#joined('stderr'), this.#joined('pty')];
    const text = (stream: OutputStream, bytes: Uint8Array) => this.#text(stream, bytes);
    return {
      exitCode,
      signal: exitCode === null ? null : (SIGNALS[exitCode - 128] ?? null),
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

/** Signals that end programs and have the same number on every system. */
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
