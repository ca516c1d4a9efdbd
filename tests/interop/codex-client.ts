import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { removeFolder } from '../support/remove-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { MockModel, type ModelItem, type ModelRequest } from './mock-model.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { parseToolOutput, type ToolOutput } from './tool-output.ts';
import { within } from './within.ts';

/** How to run codex. */
export interface CodexOptions {
  /** The native codex program. */
  readonly binary: string;
  /** The exec-server. */
  readonly url: string;
  /**
   * Whether codex reads the server's URL from `environments.toml` or from `CODEX_EXEC_SERVER_URL`. With `none` it runs commands by itself,
   * and starts MCP servers.
   */
  readonly configuredBy?: 'file' | 'variable' | 'none';
  /** The token for the server in `environments.toml`. */
  readonly authToken?: string;
  /** Set in `CODEX_EXEC_SERVER_URL` beside `environments.toml`. */
  readonly variableUrl?: string;
  /** How to reach the server through a relay, instead of by URL. */
  readonly relay?: {
    readonly registryUrl: string;
    readonly environmentId: string;
    readonly authToken: string;
  };
  readonly sandbox?: 'read-only' | 'workspace-write' | 'danger-full-access';
  /** Added to config.toml. */
  readonly config?: string;
  /** The files in the workspace when codex starts: contents by name. */
  readonly files?: Readonly<Record<string, string | Buffer>>;
}

/** What codex reported in a successful run. */
interface CodexResult {
  /** The lines of `codex exec --json`. */
  readonly events: readonly CodexEvent[];
  /** How the commands ended, in order. */
  readonly commands: readonly CommandItem[];
  /** The output of all tools, in the order of the calls. */
  readonly outputs: readonly ToolOutput[];
}

/** One line of `codex exec --json`. */
type CodexEvent = { readonly type: string; readonly item?: { readonly type: string } };

/** What codex reports to its user about a command. */
interface CommandItem {
  readonly type: 'command_execution';
  readonly command: string;
  readonly aggregated_output: string;
  readonly exit_code: number | null;
  readonly status: string;
}

/** The arguments of the `exec_command` tool, without the command itself. */
interface ExecArguments {
  readonly workdir?: string;
  readonly tty?: boolean;
  readonly yield_time_ms?: number;
  readonly max_output_tokens?: number;
}

/**
 * The real codex in its own home folder, with the test as its model. Each method call is a turn in which the model calls a tool; it
 * returns the tool's output.
 */
export class CodexRun {
  /** The folder the commands run in. */
  readonly workspace: string;
  readonly #folder: string;
  readonly #model: MockModel;
  readonly #child: ChildProcess;
  readonly #exited: Promise<number | null>;
  readonly #outputs: ToolOutput[] = [];
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
    for (const [name, content] of Object.entries(options.files ?? {})) {
      writeFileSync(join(this.workspace, name), content);
    }
    writeFileSync(join(codexHome, 'config.toml'), configToml(model.url) + (options.config ?? ''));
    const { relay } = options;
    const { configuredBy = 'file' } = options;
    const variableUrl = configuredBy === 'variable' ? options.url : options.variableUrl;
    if (configuredBy === 'file' && relay === undefined)
      writeFileSync(join(codexHome, 'environments.toml'), environmentsToml(options));
    const args = ['-C', this.workspace, '-s', options.sandbox ?? 'danger-full-access'];
    this.#child = spawn(options.binary, ['exec', '--json', '--skip-git-repo-check', ...args, 'go'], {
      cwd: this.workspace,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        HOME: home,
        CODEX_HOME: codexHome,
        ...LOOPBACK_ONLY,
        ...(variableUrl === undefined ? {} : { CODEX_EXEC_SERVER_URL: variableUrl }),
        ...(relay && {
          CODEX_EXEC_SERVER_NOISE_REGISTRY_URL: relay.registryUrl,
          CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID: relay.environmentId,
          CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN: relay.authToken,
        }),
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
    return this.#callFunction('exec_command', { cmd, ...args });
  }

  /** The model types into a running command; with no text it only waits for output. */
  writeStdin(sessionId: number | null, chars: string, yieldTimeMs = 250): Promise<ToolOutput> {
    return this.#callFunction('write_stdin', { session_id: sessionId, chars, yield_time_ms: yieldTimeMs });
  }

  /** The model changes files. `lines` are the body of a patch. */
  applyPatch(...lines: readonly string[]): Promise<ToolOutput> {
    const input = ['*** Begin Patch', ...lines, '*** End Patch', ''].join('\n');
    return this.#call('apply_patch', { type: 'custom_tool_call', input });
  }

  /** The model calls a tool of an MCP server. */
  mcpTool(server: string, name: string, args: Readonly<Record<string, unknown>>): Promise<ToolOutput> {
    return this.#callFunction(name, args, `mcp__${server}`);
  }

  /** The model views an image. */
  viewImage(path: string): Promise<ToolOutput> {
    return this.#callFunction('view_image', { path });
  }

  /** Everything codex has sent to the model in its last request. */
  async conversation(): Promise<string> {
    return JSON.stringify((await this.#modelRequest()).input);
  }

  /** The model ends the conversation. Waits until codex has exited, and fails if codex failed. */
  async finish(): Promise<CodexResult> {
    const content = [{ type: 'output_text', text: 'done' }];
    await this.#turn([{ type: 'message', role: 'assistant', id: 'msg_1', content }]);
    const code = await within(WAIT_MS, this.#exited, () => this.#failure('does not end'));
    if (code !== 0) throw this.#failure(`ended with code ${code}`);
    const lines = this.#stdout.split('\n').filter((line) => line !== '');
    const events = lines.map((line) => JSON.parse(line) as CodexEvent);
    const completed = events.filter(({ type, item }) => type === 'item.completed' && item !== undefined);
    const items = completed.map(({ item }) => item as CommandItem);
    const commands = items.filter(({ type }) => type === 'command_execution');
    return { events, commands, outputs: this.#outputs };
  }

  /** Creates a file in the workspace that a command waits for. */
  touch(name: string): void {
    writeFileSync(join(this.workspace, name), '');
  }

  /** Waits for a file that a command creates in the workspace. */
  async appeared(name: string): Promise<void> {
    await waitFor(`the file ${name}`, () => existsSync(join(this.workspace, name)));
  }

  /** Ends codex if it still runs and removes its folders. */
  async close(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited.catch(() => {});
    await this.#model.close();
    removeFolder(this.#folder);
  }

  #callFunction(
    name: string,
    args: Readonly<Record<string, unknown>>,
    namespace?: string,
  ): Promise<ToolOutput> {
    const call = { type: 'function_call', arguments: JSON.stringify(args) };
    return this.#call(name, namespace === undefined ? call : { ...call, namespace });
  }

  async #call(name: string, call: ModelItem): Promise<ToolOutput> {
    const id = `call_${++this.#calls}`;
    await this.#turn([{ ...call, call_id: id, name }]);
    const { input } = await this.#modelRequest();
    const item = input.find((entry) => entry.type === `${call.type}_output` && entry.call_id === id);
    if (item === undefined) throw this.#failure(`went on without the output of ${name}`);
    const output = parseToolOutput(item.output);
    this.#outputs.push(output);
    return output;
  }

  async #turn(items: readonly ModelItem[]): Promise<void> {
    await this.#modelRequest();
    this.#model.answer(items);
  }

  /** Waits until codex waits for the model; fails when it ends instead, or takes too long. */
  async #modelRequest(): Promise<ModelRequest> {
    const ended = this.#exited.then((code) => {
      throw this.#failure(`ended with code ${code} before the model had finished`);
    });
    const late = () => this.#failure('does not turn to the model');
    return within(WAIT_MS, Promise.race([this.#model.request(), ended]), late);
  }

  #failure(what: string): Error {
    return new Error(`codex ${what}:\n${this.#stderr.slice(-4000)}\n${this.#stdout.slice(-4000)}`);
  }
}

const WAIT_MS = 40_000;

/** Keeps codex from reaching anything but this machine. */
const LOOPBACK_ONLY = {
  HTTP_PROXY: 'http://127.0.0.1:9',
  HTTPS_PROXY: 'http://127.0.0.1:9',
  NO_PROXY: '127.0.0.1',
};

/** /tmp is not a writable root: placeholders of other tests' sandboxes appear and disappear there while a helper starts. */
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
[sandbox_workspace_write]
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
`;
}

function environmentsToml({ url, authToken }: CodexOptions): string {
  return `
default = "remote"
include_local = false
[[environments]]
id = "remote"
url = "${url}"
${authToken === undefined ? '' : `auth_bearer_token = "${authToken}"`}
`;
}
