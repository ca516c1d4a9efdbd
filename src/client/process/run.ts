import type {
  CallOptions,
  ExecBackend,
  ExecProcess,
  LostEvent,
  ProcessState,
  StartParams,
} from '../backend.ts';
import { CallLimit } from '../call-limit.ts';
import { Deadline } from '../deadline.ts';
import { ClientError } from '../errors.ts';
import { INPUT_PIECE_BYTES, RUN_END_TIMEOUT_MS, RUN_MAX_OUTPUT_BYTES } from '../limits.ts';
import { randomHex } from '../random-hex.ts';
import { OutputCollector } from './output-collector.ts';

/** How a program ended and what it said. That it failed is an outcome like others. */
export interface Outcome {
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
): Promise<Outcome> {
  const startedAt = performance.now();
  const deadline = new Deadline({ signal: options.signal, timeoutMs: options.timeoutMs });
  const params = isArgv(program) ? await startParams(backend, program, options, deadline) : program;
  const process = await backend.start(params, deadline.remaining);
  try {
    return await converse(process, options.input, options, startedAt);
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
    stop = process.onWake(check);
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
): Promise<Outcome> {
  return converse(process, input, options, performance.now());
}

async function converse(
  process: ExecProcess,
  input: Uint8Array | string | undefined,
  { signal, timeoutMs, maxOutputBytes = RUN_MAX_OUTPUT_BYTES }: CollectOptions,
  startedAt: number,
): Promise<Outcome> {
  const limit = new CallLimit(`process ${process.processId}`, { signal, timeoutMs });
  const collector = new OutputCollector(maxOutputBytes);
  const stop = new AbortController();
  const collecting = collector.collect(process, stop.signal).then(() => stop.abort());
  const writing = input === undefined ? Promise.resolve() : writeInput(process, input, stop.signal);
  let timedOut = false;
  try {
    await limit.race(Promise.all([collecting, writing]));
  } catch (error) {
    if (limit.signal?.aborted) await endNow(process, collecting);
    timedOut = error instanceof ClientError && error.kind === 'timeout' && error === limit.signal?.reason;
    if (!timedOut) throw error;
  } finally {
    limit.end();
    stop.abort();
    await Promise.allSettled([collecting, writing]);
  }
  return collector.outcome(process.state, { timedOut, wallTimeMs: performance.now() - startedAt });
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
    for (let at = 0; at < bytes.length; at += INPUT_PIECE_BYTES) {
      const status = await process.write(bytes.subarray(at, at + INPUT_PIECE_BYTES), { signal });
      if (status !== 'accepted') return;
    }
    await process.closeStdin({ signal });
  } catch (error) {
    // The end of the process says more than a write that it made fail.
    if (!process.state.exited && !signal.aborted) throw error;
  }
}

/** Ends the process and gives its last words a moment. */
async function endNow(process: ExecProcess, collecting: Promise<void>): Promise<void> {
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
