import type {
  CallOptions,
  ExecBackend,
  ExecProcess,
  LostEvent,
  OutputStream,
  ProcessState,
  StartParams,
} from '../backend.ts';
import { CallLimit } from '../call-limit.ts';
import { Deadline } from '../deadline.ts';
import { ClientError } from '../errors.ts';
import { INPUT_CHUNK_BYTES, RUN_END_TIMEOUT_MS, RUN_MAX_OUTPUT_BYTES } from '../limits.ts';
import { randomHex } from '../random-hex.ts';
import { outputOf } from './output.ts';

/** How a program ended and what it said. That it failed is an outcome like others. */
export interface RunResult {
  /** 128 + n when signal n ended it; null when it did not end in time. */
  readonly exitCode: number | null;
  /** The signal that the exit code stands for, if any; a program can also exit with such a code by itself. */
  readonly signal: string | null;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  /** What came out of the terminal, when there is one; stdout and stderr are empty then. */
  readonly terminal: Uint8Array;
  /** The output as UTF-8 text. */
  readonly text: { readonly stdout: string; readonly stderr: string; readonly terminal: string };
  /** Bytes beyond what `maxOutputBytes` allowed to keep. */
  readonly omittedBytes: number;
  /** Output that can never be had, because the connection was lost for too long. */
  readonly lost: readonly LostEvent[];
  /** Whether the time was up and the program was ended. */
  readonly timedOut: boolean;
  readonly sandboxDenied: boolean;
  readonly wallTimeMs: number;
}

export interface CollectOptions {
  /** Aborting ends the program and rejects. */
  readonly signal?: AbortSignal;
  /** The program is ended after this time. With `run` its start may take as long, and rejects when it does not. */
  readonly timeoutMs?: number;
  /** Of each stream; what comes later is counted only. */
  readonly maxOutputBytes?: number;
}

export interface RunOptions extends CollectOptions {
  /** What the program reads from stdin; without it stdin is empty. */
  readonly input?: Uint8Array | string;
  /** With a command vector: where it runs, a `file:` URI. By default the `defaultCwd` of the backend, or `/` where it tells none. */
  readonly cwd?: string;
  /** With a command vector: variables on top of the server's own. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a program to its end. Rejects when it cannot be started or followed; it is ended then as far as possible. */
export async function run(
  backend: ExecBackend,
  program: readonly string[] | StartParams,
  options: RunOptions = {},
): Promise<RunResult> {
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

/** Waits until a process has exited, or by default until all its output is told too. Rejects when it can no longer be followed. */
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
 * Writes the input, ends stdin, and collects what the process says until its end. A program that does not read its input to the end
 * is no error. Without input stdin is left alone.
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
    // As if it were started there by hand.
    envPolicy: { inherit: 'all', ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] },
    tty: false,
    pipeStdin: input !== undefined,
  };
}

function isArgv(program: readonly string[] | StartParams): program is readonly string[] {
  return Array.isArray(program);
}

/** In pieces, each when the server has taken the one before: it answers no faster than the program reads. */
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
    // The end of the process says more than a write that it made fail.
    if (!process.state.exited && !signal.aborted) throw error;
  }
}

/** Ends the process and gives its last words a moment. */
async function terminateAndCollect(process: ExecProcess, collecting: Promise<void>): Promise<void> {
  const limit = new CallLimit('the end of the process', { timeoutMs: RUN_END_TIMEOUT_MS });
  try {
    // Without a deadline of its own: during a recovery it is sent later, so that no program stays behind.
    await limit.race(process.terminate());
    await limit.race(collecting);
  } catch {
    // It was asked to end; more cannot be done from here.
  } finally {
    limit.end();
  }
}

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

  result(state: ProcessState, times: Pick<RunResult, 'timedOut' | 'wallTimeMs'>): RunResult {
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
