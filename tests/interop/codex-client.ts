import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MockModel, type ModelItem } from './mock-model.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { parseToolOutput, type ToolOutput } from './tool-output.ts';
import { until } from './until.ts';

/** How to run codex. */
export interface CodexOptions {
  /** The native codex program. */
  readonly binary: string;
  /** The exec-server. */
  readonly url: string;
  /** Whether codex learns of the server from `environments.toml` or from `CODEX_EXEC_SERVER_URL`. */
  readonly configuredBy?: 'file' | 'variable';
  readonly sandbox?: 'read-only' | 'workspace-write' | 'danger-full-access';
}

/** How a run of codex ended. */
export interface CodexResult {
  readonly exitCode: number | null;
  /** The lines of `codex exec --json`. */
  readonly events: readonly Readonly<Record<string, unknown>>[];
  /** Everything the tools answered, in the order of the calls. */
  readonly outputs: readonly ToolOutput[];
}

/** The arguments of the `exec_command` tool; the command itself apart. */
export interface ExecArguments {
  readonly workdir?: string;
  readonly tty?: boolean;
  readonly yield_time_ms?: number;
  readonly max_output_tokens?: number;
}

/** A tool call of the model. */
export interface ToolCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/**
 * The real codex in a home of its own, with the test as its model: each call is a turn in which the model calls a tool, and returns
 * what the tool answered.
 */
export class CodexRun {
  /** The folder the commands run in. */
  readonly workspace: string;
  readonly outputs: ToolOutput[] = [];
  readonly #folder: string;
  readonly #model: MockModel;
  readonly #child: ChildProcess;
  readonly #exited: Promise<number | null>;
  #stdout = '';
  #stderr = '';
  #calls = 0;

  private constructor(folder: string, model: MockModel, options: CodexOptions) {
    this.#folder = folder;
    this.#model = model;
    this.workspace = join(folder, 'workspace');
    const home = join(folder, 'home');
    const codexHome = join(folder, 'codex');
    for (const path of [this.workspace, home, codexHome]) mkdirSync(path);
    writeFileSync(join(codexHome, 'config.toml'), configToml(model.url));
    const byVariable = options.configuredBy === 'variable';
    if (!byVariable) writeFileSync(join(codexHome, 'environments.toml'), environmentsToml(options.url));
    const place = ['-C', this.workspace, '-s', options.sandbox ?? 'danger-full-access'];
    this.#child = spawn(options.binary, ['exec', '--json', '--skip-git-repo-check', ...place, 'go'], {
      cwd: this.workspace,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        HOME: home,
        CODEX_HOME: codexHome,
        ...LOOPBACK_ONLY,
        ...(byVariable ? { CODEX_EXEC_SERVER_URL: options.url } : {}),
      },
    });
    this.#child.stdout!.setEncoding('utf8').on('data', (part: string) => {
      this.#stdout += part;
    });
    this.#child.stderr!.setEncoding('utf8').on('data', (part: string) => {
      this.#stderr += part;
    });
    this.#exited = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (code) => resolve(code));
    });
    this.#exited.catch(() => {});
  }

  static async start(options: CodexOptions): Promise<CodexRun> {
    return new CodexRun(temporaryFolder('interop-'), await MockModel.open(), options);
  }

  /** The model runs a command. */
  exec(cmd: string, args: ExecArguments = {}): Promise<ToolOutput> {
    return this.call({ name: 'exec_command', arguments: { cmd, ...args } });
  }

  /** The model types into a running command; with no text it only waits for output. */
  writeStdin(sessionId: number | null, chars: string, yieldTimeMs = 250): Promise<ToolOutput> {
    const args = { session_id: sessionId, chars, yield_time_ms: yieldTimeMs };
    return this.call({ name: 'write_stdin', arguments: args });
  }

  async call(call: ToolCall): Promise<ToolOutput> {
    const id = `call_${++this.#calls}`;
    await this.#turn([
      { type: 'function_call', call_id: id, name: call.name, arguments: JSON.stringify(call.arguments) },
    ]);
    const { input } = await this.#bounded(this.#model.request(), `the output of ${call.name}`);
    const item = input.find((entry) => entry.type === 'function_call_output' && entry.call_id === id);
    if (item === undefined) throw new Error(`codex went on without the output of ${call.name}`);
    const output = parseToolOutput(item.output);
    this.outputs.push(output);
    return output;
  }

  /** The model has nothing more to do; waits for codex to end. */
  async finish(): Promise<CodexResult> {
    const content = [{ type: 'output_text', text: 'done' }];
    await this.#turn([{ type: 'message', role: 'assistant', id: 'msg_1', content }]);
    const exitCode = await this.#bounded(this.#exited, 'the end of codex');
    const events = this.#stdout.split('\n').filter((line) => line !== '');
    return { exitCode, events: events.map((line) => JSON.parse(line)), outputs: this.outputs };
  }

  /** Creates a file in the workspace for which a command waits. */
  touch(name: string): void {
    writeFileSync(join(this.workspace, name), '');
  }

  /** Waits for a file that a command creates in the workspace. */
  async appeared(name: string): Promise<void> {
    await until(() => existsSync(join(this.workspace, name)), `the file ${name}`);
  }

  /** Ends codex if it still runs and removes its folders. */
  async close(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited.catch(() => {});
    await this.#model.close();
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  async #turn(items: readonly ModelItem[]): Promise<void> {
    await this.#bounded(this.#model.request(), 'a request to the model');
    this.#model.answer(items);
  }

  /** Fails when codex ends first, or takes too long. */
  async #bounded<T>(work: Promise<T>, what: string): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const ended = this.#exited.then((code) => {
      if (work === (this.#exited as unknown)) return work;
      throw new Error(`codex ended with code ${code} before ${what}:\n${this.#stderr}${this.#stdout}`);
    });
    const late = new Promise<never>((_, reject) => {
      const fail = () =>
        reject(new Error(`no ${what} within ${WAIT_MS} ms:\n${this.#stderr}${this.#stdout}`));
      timer = setTimeout(fail, WAIT_MS);
    });
    try {
      return await Promise.race([work, ended, late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

const WAIT_MS = 40_000;

/** Codex reaches nothing but this machine. */
const LOOPBACK_ONLY = {
  HTTP_PROXY: 'http://127.0.0.1:9',
  HTTPS_PROXY: 'http://127.0.0.1:9',
  NO_PROXY: '127.0.0.1',
};

function configToml(modelUrl: string): string {
  return `
model = "gpt-5.5"
model_provider = "mock"
[model_providers.mock]
name = "mock"
base_url = "${modelUrl}"
wire_api = "responses"
experimental_bearer_token = "dummy"
request_max_retries = 0
stream_max_retries = 0
[features]
enable_request_compression = false
plugins = false
apps = false
remote_plugin = false
[analytics]
enabled = false
`;
}

function environmentsToml(url: string): string {
  return `
default = "remote"
include_local = false
[[environments]]
id = "remote"
url = "${url}"
`;
}
