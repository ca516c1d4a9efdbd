import { unlessAborted } from '../../base/abort.ts';
import { Semaphore } from '../../base/semaphore.ts';
import { TimeLimit } from '../../base/time-limit.ts';
import { DEFAULT_OUTPUT_TOKENS } from '../limits.ts';
import type { Answer, Call, ToolSpec } from './call.ts';
import { asToolFailure } from './errors.ts';
import { ToolFailure } from './failure.ts';
import { EDIT_FILE } from './files/edit-file.ts';
import { LIST_DIRECTORY } from './files/list-directory.ts';
import { READ_FILE } from './files/read-file.ts';
import { SEARCH_FILES } from './files/search-files.ts';
import { WRITE_FILE } from './files/write-file.ts';
import { locksOf } from './keyed-locks.ts';
import { CALL_LIMIT_MS, MAX_CONCURRENT_CALLS, MAX_POSITIONS, MAX_WAITING_CALLS } from './limits.ts';
import { choice, parseArguments, schemaOf } from './parameters.ts';
import { SandboxedPrograms } from './process/confinement.ts';
import { EXEC_COMMAND } from './process/exec-command.ts';
import { KILL_PROCESS } from './process/kill-process.ts';
import { LIST_PROCESSES } from './process/list-processes.ts';
import { Positions } from './process/positions.ts';
import { READ_OUTPUT } from './process/read-output.ts';
import { WAIT_PROCESS } from './process/wait-process.ts';
import { WRITE_STDIN } from './process/write-stdin.ts';
import { parseResourceUri } from './resource-uri.ts';
import { readSubject, unknownEnvironment } from './resources.ts';
import type {
  AgentTool,
  AgentTools,
  AgentToolsOptions,
  ResourceContent,
  ToolContext,
  ToolResult,
} from './types.ts';
import { type NamedEnvironment, Workspace } from './workspace.ts';

/** Creates the tools of a model over one or several environments. Throws an Error for options that cannot work. */
export function createAgentTools(options: AgentToolsOptions): AgentTools {
  return new Toolset(options);
}

const TOOLS: readonly ToolSpec[] = [
  EXEC_COMMAND,
  WRITE_STDIN,
  WAIT_PROCESS,
  READ_OUTPUT,
  LIST_PROCESSES,
  KILL_PROCESS,
  READ_FILE,
  WRITE_FILE,
  EDIT_FILE,
  LIST_DIRECTORY,
  SEARCH_FILES,
];

class Toolset implements AgentTools {
  readonly tools: readonly AgentTool[];
  readonly #options: AgentToolsOptions;
  readonly #targets: ReadonlyMap<string, NamedEnvironment>;
  readonly #workspace: Workspace;
  readonly #positions: Positions;
  readonly #programs = new SandboxedPrograms();
  readonly #closing = new AbortController();
  readonly #calls = new Set<Promise<unknown>>();
  readonly #slots = new Semaphore(MAX_CONCURRENT_CALLS, {
    maxWaiting: MAX_WAITING_CALLS,
    tooManyWaiting: () =>
      new ToolFailure('Too many calls are running. Wait for some of them, then call again.'),
  });

  constructor(options: AgentToolsOptions) {
    this.#options = options;
    this.#targets = namedTargets(options);
    this.#positions = new Positions(options.rememberPositions === false ? 0 : MAX_POSITIONS);
    this.#workspace = new Workspace(options.sandbox ?? 'off');
    for (const { name, roots = options.roots ?? [] } of options.environments)
      this.#workspace.setRoots(name, roots);
    const specs = TOOLS.filter(({ annotations }) => !options.readOnly || annotations.readOnlyHint);
    this.tools = specs.map((spec) => this.#bind(spec));
  }

  tool(name: string): AgentTool | undefined {
    return this.tools.find((tool) => tool.name === name);
  }

  async call(name: string, args: unknown, context?: ToolContext): Promise<ToolResult> {
    const tool = this.tool(name);
    if (tool !== undefined) return tool.call(args, context);
    const isRefused = TOOLS.some((spec) => spec.name === name);
    const problem = isRefused
      ? `${name} is not available here: only tools that read are.`
      : `There is no tool ${JSON.stringify(String(name).slice(0, 100))}.`;
    const names = this.tools.map((each) => each.name).join(', ');
    return failed(new ToolFailure(`${problem} The tools are ${names}.`));
  }

  async readResource(
    uri: string,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<ResourceContent> {
    const { environment, subject } = parseResourceUri(uri);
    const target = this.#targets.get(environment);
    if (target === undefined) throw unknownEnvironment(environment, [...this.#targets.keys()]);
    try {
      return await this.#withSlot(this.#signals(signal), (limited) =>
        readSubject(this.#callOf(target, limited, { callId: 'resource' }), subject),
      );
    } catch (error) {
      throw asToolFailure(error, target);
    }
  }

  setRoots(roots: readonly string[], environment?: string): void {
    const known = [...this.#targets.keys()];
    if (environment !== undefined && !known.includes(environment))
      throw unknownEnvironment(environment, known);
    for (const name of environment === undefined ? known : [environment])
      this.#workspace.setRoots(name, roots);
  }

  async close(): Promise<void> {
    this.#closing.abort(new ToolFailure('The tools are closed. Programs that were started keep running.'));
    await Promise.allSettled(this.#calls);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #bind(spec: ToolSpec): AgentTool {
    const names = [...this.#targets.keys()];
    const environment =
      names.length > 1
        ? { environment: choice(`The environment to work in; ${names[0]} by default.`, names) }
        : {};
    const parameters = schemaOf({ ...spec.parameters, ...environment }, spec.required);
    const { name, title, description, annotations } = spec;
    const call = (args: unknown, context: ToolContext = {}) => {
      const running = this.#call(spec, parameters, args, context);
      this.#calls.add(running);
      return running.finally(() => this.#calls.delete(running));
    };
    return { name, title, description, annotations, parameters, call };
  }

  async #call(
    spec: ToolSpec,
    parameters: AgentTool['parameters'],
    args: unknown,
    { callId = `call-${crypto.randomUUID()}`, signal, onProgress }: ToolContext,
  ): Promise<ToolResult> {
    let target = [...this.#targets.values()][0]!;
    const signals = this.#signals(signal);
    try {
      const { environment, ...parsed } = parseArguments(parameters, args);
      if (environment !== undefined) target = this.#targets.get(String(environment))!;
      await this.#approve(spec, parsed, callId, target, signals);
      return await this.#withSlot(signals, async (limited) =>
        resultOf(
          this.#withEnvironment(
            target,
            await spec.run(parsed, this.#callOf(target, limited, { callId, onProgress })),
          ),
        ),
      );
    } catch (error) {
      return failed(asToolFailure(error, target));
    }
  }

  /** With several environments, the calls that an answer proposes need the name of this one. */
  #withEnvironment({ name }: NamedEnvironment, answer: Answer): Answer {
    const { next } = answer.structured;
    if (this.#targets.size === 1 || typeof next !== 'string' || next.startsWith('Next: nothing'))
      return answer;
    const named = `${next} Pass environment "${name}".`;
    return {
      ...answer,
      text: answer.text.replace(next, () => named),
      structured: { ...answer.structured, next: named },
    };
  }

  #signals(signal: AbortSignal | undefined): readonly AbortSignal[] {
    return [this.#closing.signal, ...(signal === undefined ? [] : [signal])];
  }

  #callOf(
    target: NamedEnvironment,
    signal: AbortSignal,
    { callId, onProgress }: { readonly callId: string; readonly onProgress?: Call['onProgress'] },
  ): Call {
    return {
      target,
      callId,
      workspace: this.#workspace,
      positions: this.#positions,
      programs: this.#programs,
      fileLocks: locksOf(target.environment),
      readOnly: this.#options.readOnly ?? false,
      maxOutputTokens: this.#options.maxOutputTokens ?? DEFAULT_OUTPUT_TOKENS,
      signal,
      startedAt: performance.now(),
      onProgress,
    };
  }

  async #withSlot<T>(signals: readonly AbortSignal[], work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return within(CALL_LIMIT_MS, signals, async (signal) => {
      await this.#slots.acquire(signal);
      try {
        return await work(signal);
      } finally {
        this.#slots.release();
      }
    });
  }

  async #approve(
    { name, title, summary }: ToolSpec,
    args: Readonly<Record<string, unknown>>,
    callId: string,
    target: NamedEnvironment,
    signals: readonly AbortSignal[],
  ): Promise<void> {
    const { approve } = this.#options;
    const shown = summary?.(args) ?? null;
    if (approve === undefined || shown === null) return;
    const request = { tool: name, title, callId, environment: target.name, summary: shown, arguments: args };
    const { approved, reason } = await within(null, signals, (signal) =>
      unlessAborted(Promise.resolve(approve({ ...request, signal })), signal),
    );
    if (approved === true) return;
    throw new ToolFailure(
      `The user declined this call${reason ? `: ${reason}` : ''}. Do not repeat it; choose another way, or ask the user.`,
      { declined: true },
    );
  }
}

/** Runs work with a signal that aborts when the time is up or one of the signals aborts. Its error says which of them it was. */
async function within<T>(
  ms: number | null,
  signals: readonly AbortSignal[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new TimeLimit(ms, signals, { timeUp });
  const { signal } = limit;
  try {
    signal.throwIfAborted();
    return await work(signal);
  } catch (error) {
    if (!signal.aborted || error instanceof ToolFailure) throw error;
    throw signal.reason instanceof ToolFailure ? signal.reason : cancelled(error);
  } finally {
    limit.end();
  }
}

function resultOf({ text, structured, resources = [], isError = false }: Answer): ToolResult {
  return { text, isError, structured, resources };
}

function failed({ message, facts }: ToolFailure): ToolResult {
  return { text: message, isError: true, structured: { error: message, ...facts }, resources: [] };
}

function cancelled(cause: unknown): ToolFailure {
  return new ToolFailure(
    'The call was cancelled; what it asked for may have happened.',
    { cancelled: true },
    cause,
  );
}

function timeUp(): ToolFailure {
  return new ToolFailure(
    'The call took too long and was ended; what it asked for may have happened. Check, then try again with less.',
  );
}

function namedTargets({ environments }: AgentToolsOptions): ReadonlyMap<string, NamedEnvironment> {
  const targets = new Map(environments.map((target) => [target.name, target]));
  if (targets.size === 0) throw new TypeError('`environments` is empty; pass at least one');
  if (targets.size < environments.length)
    throw new TypeError('two environments have the same name; names must differ');
  return targets;
}
