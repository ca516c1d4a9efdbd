import {
  type AgentTool,
  type AgentTools,
  type AgentToolsOptions,
  createAgentTools,
  type ResourceContent,
  type ToolContext,
  type ToolResult,
} from '../agent/toolset/index.ts';
import { isObject } from '../base/is-object.ts';
import type { McpEnvironment } from './options.ts';

/**
 * The tools over all environments. Each environment has tools of its own, because their roots differ: a path of this machine means
 * nothing elsewhere.
 */
export class EnvironmentTools {
  /** Over all environments, with the argument `environment` where there are several. */
  readonly #all: AgentTools;
  /** By the name of the environment. The first is the default. */
  readonly #each: ReadonlyMap<string, AgentTools>;

  constructor(
    environments: readonly McpEnvironment[],
    options: Omit<AgentToolsOptions, 'environments' | 'roots'>,
  ) {
    const toolsOf = (some: readonly McpEnvironment[], roots: readonly string[]) =>
      createAgentTools({
        ...options,
        environments: some.map(({ name, environment }) => ({ name, environment })),
        roots,
      });
    this.#all = toolsOf(environments, []);
    this.#each = new Map(environments.map((each) => [each.name, toolsOf([each], each.roots)]));
  }

  get tools(): readonly AgentTool[] {
    return this.#all.tools;
  }

  tool(name: string): AgentTool | undefined {
    return this.#all.tool(name);
  }

  /** Calls a tool of the environment that the arguments name. */
  call({ name }: AgentTool, args: unknown, context: ToolContext): Promise<ToolResult> {
    const { environment = this.#each.keys().next().value, ...rest } = isObject(args) ? args : {};
    const tools = typeof environment === 'string' ? this.#each.get(environment) : undefined;
    // Those over all environments refuse arguments that name none of them.
    if (tools === undefined || !isObject(args) || (this.#each.size === 1 && 'environment' in args)) {
      return this.#all.tool(name)!.call(args, context);
    }
    return tools.tool(name)!.call(rest, context);
  }

  /** Reads a resource. Rejects with an Error whose message says what to do. */
  readResource(uri: string, options: { readonly signal: AbortSignal }): Promise<ResourceContent> {
    const [, host = ''] = /^exec-server:\/\/([^/]+)\//.exec(uri) ?? [];
    const owner = [...this.#each].find(([name]) => encodeURIComponent(name) === host);
    return (owner?.[1] ?? this.#all).readResource(uri, options);
  }

  /** Replaces the roots of an environment. */
  setRoots(environment: string, roots: readonly string[]): void {
    this.#each.get(environment)?.setRoots(roots);
  }

  /** Ends all calls. Programs run on. */
  async close(): Promise<void> {
    await Promise.all([this.#all, ...this.#each.values()].map((tools) => tools.close()));
  }
}
