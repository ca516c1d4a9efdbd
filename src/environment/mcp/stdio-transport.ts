import { LineSplitter } from '../../base/line-splitter.ts';
import { randomHex } from '../../base/random-hex.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import type { ExecBackend, ExecProcess, StartParams } from '../../client/backend.ts';
import { CORE_NAMES } from '../../process/env-policy.ts';
import { MAX_MCP_MESSAGE_BYTES, MCP_END_GRACE_MS } from '../limits.ts';
import { type McpTransport, parseMessage } from './transport.ts';

type EnvPolicy = NonNullable<StartParams['envPolicy']>;

/** A program that speaks the protocol on its stdin and stdout. */
interface McpProgram {
  readonly argv: readonly [string, ...string[]];
  /** A `file:` URI of the environment. */
  readonly cwd: string;
  /** Variables in addition to those that every program needs, such as PATH and HOME. */
  readonly env?: Readonly<Record<string, string>>;
  /** Names of the executor's variables that the program gets as well. */
  readonly envVars?: readonly string[];
  /** Receives what the program writes to stderr. */
  readonly onStderr?: (bytes: Uint8Array) => void;
}

/** The transport to an MCP server that runs as a program of an environment. Each line is one message. */
export class McpStdioTransport implements McpTransport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: object) => void) | undefined;
  readonly #backend: ExecBackend;
  readonly #program: McpProgram;
  #process: ExecProcess | null = null;
  #ended: Promise<void> = Promise.resolve();
  /** Aborting it cancels a start that is under way. */
  readonly #start = new AbortController();
  #started = false;
  #closed = false;
  #finished = false;

  constructor(backend: ExecBackend, program: McpProgram) {
    this.#backend = backend;
    this.#program = program;
  }

  async start(): Promise<void> {
    if (this.#started) throw new Error('the MCP server is started already');
    this.#started = true;
    const { argv, cwd, env = {}, envVars = [] } = this.#program;
    const envPolicy = { ...CORE_VARIABLES, ...(envVars.length > 0 && coreAnd(envVars)) };
    const params = {
      ...{ processId: `mcp-stdio-${randomHex()}`, argv: [...argv], cwd, env: { ...env }, envPolicy },
      ...{ tty: false, pipeStdin: true, arg0: null },
    };
    this.#process = await this.#backend.start(params, { signal: this.#start.signal });
    this.#ended = this.#follow(this.#process);
  }

  /** Null before the exit. */
  get exitCode(): number | null {
    return this.#process?.state.exitCode ?? null;
  }

  async send(message: object): Promise<void> {
    if (this.#process === null || this.#closed) throw new Error('the MCP server is not running');
    await this.#process.write(`${JSON.stringify(message)}\n`);
  }

  /**
   * Closes the server's stdin, and terminates the server with its child processes if it does not exit. Resolves after the exit, or
   * after the time limit when the executor does not answer or another process keeps the output open.
   */
  async close(): Promise<void> {
    this.#start.abort();
    const process = this.#process;
    if (process === null) return;
    await process.closeStdin({ timeoutMs: MCP_END_GRACE_MS }).catch(() => {});
    if (await this.#exitsInTime()) return;
    // It has no time limit: during a recovery it is sent later, so that no program is left running.
    void process.terminate().catch(() => {});
    await this.#exitsInTime();
    this.#finish();
  }

  /** Ends with the server's output, or soon after its exit when another process keeps the output open. */
  async #follow(process: ExecProcess): Promise<void> {
    const lines = new LineSplitter(MAX_MCP_MESSAGE_BYTES);
    const outputLimit = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    try {
      for await (const event of process.events({ signal: outputLimit.signal })) {
        if (event.type === 'output' && event.stream === 'stderr') this.#program.onStderr?.(event.bytes);
        else if (event.type === 'output') this.#receive(lines.push(event.bytes));
        else if (event.type === 'lost' && event.bytes !== 0)
          throw new Error('output of the MCP server was lost');
        else if (event.type === 'failed') throw event.error;
        else if (event.type === 'exited') {
          this.#closed = true;
          // Some executors report the exit before the last output.
          timer = setTimeout(() => outputLimit.abort(), MCP_END_GRACE_MS);
        }
      }
    } catch (error) {
      // After the exit only the processes that the server left behind still run.
      if (!outputLimit.signal.aborted) this.onerror?.(error as Error);
      // The rest of its output is not read.
      const terminated = process.terminate().catch(() => {});
      await withTimeout(terminated, MCP_END_GRACE_MS, { onTimeout: () => {} });
    } finally {
      clearTimeout(timer);
    }
    this.#finish();
  }

  #finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#closed = true;
    this.onclose?.();
  }

  #exitsInTime(): Promise<boolean> {
    const ended = this.#ended.then(() => true);
    return withTimeout(ended, MCP_END_GRACE_MS, { onTimeout: () => false });
  }

  #receive(lines: Iterable<Buffer>): void {
    for (const line of lines) {
      if (line.length === 0) continue;
      const message = parseMessage(line.toString());
      if (message instanceof Error) this.onerror?.(message);
      else this.onmessage?.(message);
    }
  }
}

const CORE_VARIABLES: EnvPolicy = {
  ...{ inherit: 'core', ignoreDefaultExcludes: true },
  ...{ exclude: [], set: {}, includeOnly: [] },
};

/** The policy has no list of additional names: it inherits everything and filters. */
function coreAnd(names: readonly string[]): Partial<EnvPolicy> {
  return { inherit: 'all', includeOnly: [...CORE_NAMES, ...names] };
}
