import type { CallOptions, ExecBackend, ExecProcess, ProcessEvent } from '../environment/index.ts';
import type { EnvPolicy } from './launch/program-environment.ts';
import { MAX_LINE_BYTES, STDIO_EXIT_WAIT_MS } from './limits.ts';

/** What to run, and how. */
export interface StdioProgramOptions extends CallOptions {
  readonly argv: readonly string[];
  /** A `file:` URI of the executor. */
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** What it gets of the executor's environment; by default only what every program needs. */
  readonly envPolicy?: EnvPolicy;
  /** Told what the program writes to stderr, while its lines are read. */
  readonly onStderr?: (text: string) => void;
}

/** The conversation with a program on stdio is over before its end. */
export class StdioProgramError extends Error {
  override readonly name = 'StdioProgramError';
}

/**
 * A program that is talked to in lines over stdin and stdout, such as an MCP server, wherever the backend runs it.
 */
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

  /** Writes a line. Resolves when the executor has taken it; the program may read it later. */
  async send(line: string, options: CallOptions = {}): Promise<void> {
    if (/[\r\n]/.test(line)) throw new TypeError('a line cannot contain a line break');
    const status = await this.process.write(`${line}\n`, options);
    if (status !== 'accepted') throw new StdioProgramError(`the program takes no input: ${status}`);
  }

  /**
   * The lines that the program writes, without their ends; blank ones are left out. For one reader. Ends with the program, and by
   * throwing when a part of its output is lost: what follows cannot be understood then.
   */
  async *lines(options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<string, void> {
    const line = new LineAssembler();
    const stderr = new TextDecoder();
    for await (const event of this.process.events(options)) {
      if (event.type === 'output' && event.stream === 'stderr') {
        this.#onStderr(stderr.decode(event.bytes, { stream: true }));
      } else if (event.type === 'output') {
        yield* line.push(event.bytes);
      } else {
        throwIfOver(event);
      }
    }
    yield* line.flush();
  }

  /** Ends the program: its input first, then by a request, then by force. Resolves when it was told; never rejects. */
  async close(): Promise<void> {
    await this.process.closeStdin({ timeoutMs: STDIO_EXIT_WAIT_MS }).catch(() => false);
    if (await this.#closedInTime()) return;
    const mode = { type: 'graceful', timeoutMs: STDIO_EXIT_WAIT_MS } as const;
    await this.process.terminate(mode, { timeoutMs: 2 * STDIO_EXIT_WAIT_MS }).catch(() => false);
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

function throwIfOver(event: ProcessEvent): void {
  if (event.type === 'lost') throw new StdioProgramError('a part of its output is lost');
  if (event.type === 'failed') throw new StdioProgramError(event.error.message, { cause: event.error });
}

/** Puts lines together from pieces of any size. */
class LineAssembler {
  #parts: Uint8Array[] = [];
  #bytes = 0;

  *push(bytes: Uint8Array): Generator<string> {
    let from = 0;
    for (let end = bytes.indexOf(LF); end !== -1; end = bytes.indexOf(LF, from)) {
      this.#add(bytes.subarray(from, end));
      from = end + 1;
      yield* this.flush();
    }
    this.#add(bytes.subarray(from));
  }

  /** What has come since the last end of a line. */
  *flush(): Generator<string> {
    const text = Buffer.concat(this.#parts).toString().replace(/\r$/, '');
    this.#parts = [];
    this.#bytes = 0;
    if (text.trim() !== '') yield text;
  }

  #add(part: Uint8Array): void {
    if (part.length === 0) return;
    this.#bytes += part.length;
    if (this.#bytes > MAX_LINE_BYTES) {
      throw new StdioProgramError(`it wrote a line of more than ${MAX_LINE_BYTES} bytes`);
    }
    this.#parts.push(part);
  }
}

const LF = 0x0a;
