import type { ToolEnvironment, ToolSandbox } from '../agent/toolset/index.ts';
import type { Logger } from '../observability/log.ts';

/** An environment of the tools. */
export interface McpEnvironment {
  readonly name: string;
  readonly environment: ToolEnvironment;
  /** Whether it is this machine, so that the roots of a client name directories of it. */
  readonly isLocal: boolean;
  /** The roots that the user has given: absolute native paths of the environment. Empty for none. */
  readonly roots: readonly string[];
  /** The variables of programs, instead of those of the environment's server. */
  readonly env?: Readonly<Record<string, string>>;
}

/** What the MCP server offers to all its clients. */
export interface McpOptions {
  /** The first is the default. */
  readonly environments: readonly McpEnvironment[];
  /** Only the tools that read. */
  readonly readOnly: boolean;
  readonly sandbox: ToolSandbox;
  /** Asks the user of the client before each change. */
  readonly ask: boolean;
  /** The workspace on this machine where neither the client nor the user names roots. */
  readonly directory: string;
  /** Whether roots of a client count only within the roots of the user, or else within {@link directory}. */
  readonly confineRoots: boolean;
  readonly log: Logger;
}
