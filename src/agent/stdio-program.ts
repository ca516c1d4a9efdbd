import { LineSplitter } from '../base/line-splitter.ts';
import {
  type CallOptions,
  ClientError,
  type EnvPolicy,
  type ExecBackend,
  type ExecProcess,
  type ProcessEvent,
} from '../environment/index.ts';
import { MAX_LINE_BYTES, STDIO_EXIT_WAIT_MS } from './limits.ts';

/** Options of a program on stdio. */
export interface StdioProgramOptions extends CallOptions {
  readonly argv: readonly string[];
  /** A `file:` URI of the executor. */
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Which variables of the executor's environment it inherits. Default: only those that every program needs. */
  readonly envPolicy?: EnvPolicy;
  /** Receives what the program writes to stderr, while its lines are read. */
  readonly onStderr?: (text: string) => void;
}

/** A program on stdio can no longer be used, although it may still run. */
export class StdioProgramError extends Error {
  override readonly name = 'StdioProgramError';
}

/** A program that exchanges lines over stdin and stdout, such as an MCP server, on any backend. */
export class StdioProgram {
  readonly process: ExecProcess;
  readonly #onStderr: (text: string) => void;

  private constructor(process: ExecProcess, onStderr: (text: string) => void) {
    this.process = process;
    this.#onStderr = onStderr;
  }

  static async launch(backend: ExecBackend, options: StdioProgramOptions): Promise<StdioProgram> {
    const { argv, cwd, env = {}, envPolicy = CORE_ENVIRONMENT, onStderr = () => {}, ...call } = options;
    const params = {
      processId: `stdio-${crypto.randomUUID()}`,
      argv: [...argv],
      cwd,
      env: { ...env },
      envPolicy,
      tty: false,
      pipeStdin: true,
    };
    return new StdioProgram(await backend.start(params, call), onStderr);
  }

  /** Writes a line. Resolves when the executor has accepted it; the program may read it later. */
  async send(line: string, options: CallOptions = {}): Promise<void> {
    if (/[\r\n]/.test(line)) throw new TypeError('a line cannot contain a line break');
    try {
      await this.process.write(`${line}\n`, options);
    } catch (error) {
      const readsNoMore = error instanceof ClientError && ['stdinClosed', 'notFound'].includes(error.kind);
      throw readsNoMore ? new StdioProgramError(error.message, { cause: error }) : error;
    }
  }

  /**
   * Yields the lines of the program's stdout, without line ends and blank lines, to one reader. It ends with the program. It throws
   * when a part of the output is lost, because the rest cannot be parsed.
   */
  async *lines(options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<string, void> {
    const splitter = new LineSplitter(MAX_LINE_BYTES);
    const stderr = new TextDecoder();
    for await (const event of this.process.events(options)) {
      if (event.type === 'output' && event.stream === 'stderr') {
        this.#onStderr(stderr.decode(event.bytes, { stream: true }));
      } else if (event.type === 'output') {
        for (const line of splitLines(splitter, event.bytes)) if (line.trim() !== '') yield line;
      } else {
        throwIfLost(event);
      }
    }
    const rest = splitter.rest().toString();
    if (rest.trim() !== '') yield rest;
  }

  /** Closes the program's stdin, then requests its termination, then kills it. Never rejects; does not wait for the exit. */
  async close(): Promise<void> {
    await this.process.closeStdin({ timeoutMs: STDIO_EXIT_WAIT_MS }).catch(() => false);
    if (await this.#closedInTime()) return;
    const mode = { type: 'graceful', timeoutMs: STDIO_EXIT_WAIT_MS } as const;
    await this.process.terminate(mode, { timeoutMs: 2 * STDIO_EXIT_WAIT_MS }).catch(() => false);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #closedInTime(): Promise<boolean> {
    return new Promise((resolve) => {
      const over = () => this.process.state.closed || this.process.state.failure !== null;
      const finish = () => {
        stop();
        clearTimeout(timer);
        resolve(over());
      };
      const stop = this.process.onChange(() => {
        if (over()) finish();
      });
      const timer = setTimeout(finish, STDIO_EXIT_WAIT_MS);
      if (over()) finish();
    });
  }
}

const CORE_ENVIRONMENT: EnvPolicy = {
  inherit: 'core',
  ignoreDefaultExcludes: true,
  exclude: [],
  set: {},
  includeOnly: [],
};

function throwIfLost(event: ProcessEvent): void {
  if (event.type === 'lost' && event.bytes !== 0)
    throw new StdioProgramError('a part of the output was lost');
  if (event.type === 'failed') throw new StdioProgramError(event.error.message, { cause: event.error });
}

/** The lines that the bytes complete. A line that is too long ends the conversation. */
function* splitLines(splitter: LineSplitter, bytes: Uint8Array): Generator<string, void> {
  try {
    for (const line of splitter.push(bytes)) yield line.toString();
  } catch (cause) {
    throw new StdioProgramError((cause as Error).message, { cause });
  }
}
