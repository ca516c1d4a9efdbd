import type { Environment } from '../../environment/index.ts';

/** The names of the tools. */
export type AgentToolName =
  | 'exec_command'
  | 'write_stdin'
  | 'wait_process'
  | 'read_output'
  | 'list_processes'
  | 'kill_process'
  | 'read_file'
  | 'write_file'
  | 'edit_file'
  | 'list_directory'
  | 'search_files';

/** The JSON Schema of one argument. */
export interface JsonSchemaProperty {
  readonly type: 'string' | 'integer' | 'boolean';
  readonly description: string;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
}

/** The JSON Schema of all arguments: flat and without unions, which some clients reject. */
export interface JsonSchemaObject {
  readonly type: 'object';
  readonly properties: Readonly<Record<string, JsonSchemaProperty>>;
  readonly required: readonly string[];
  readonly additionalProperties: false;
}

/** Hints for a user interface, as in MCP. */
export interface ToolAnnotations {
  readonly readOnlyHint: boolean;
  readonly destructiveHint: boolean;
  readonly idempotentHint: boolean;
  readonly openWorldHint: boolean;
}

/** A tool for a model. */
export interface AgentTool {
  readonly name: AgentToolName;
  readonly title: string;
  /** For the model. */
  readonly description: string;
  readonly parameters: JsonSchemaObject;
  readonly annotations: ToolAnnotations;
  /**
   * Runs the tool. The arguments are an object, or its JSON text from a model. Never rejects: a mistake of the model, a refusal or a
   * failure of the server is a result with `isError` and a text that says what to do.
   */
  call(args: unknown, context?: ToolContext): Promise<ToolResult>;
}

/** The context of a call, which is from the program and not from the model. */
export interface ToolContext {
  /** The id of the call, for approvals. Programs see it as CODEX_TOOL_CALL_ID. */
  readonly callId?: string;
  /** Ends the call. A program that it has started or waits for keeps running. */
  readonly signal?: AbortSignal;
  /** Called about once per second while the call waits. */
  readonly onProgress?: (progress: ToolProgress) => void;
}

export interface ToolProgress {
  readonly elapsedMs: number;
  readonly message: string;
}

/** The result of a call. */
export interface ToolResult {
  /** The text for the model. */
  readonly text: string;
  readonly isError: boolean;
  /** The same as data. */
  readonly structured: Readonly<Record<string, unknown>>;
  /** Content that the text does not contain, or not completely. */
  readonly resources: readonly ToolResource[];
}

/** Content that {@link AgentTools.readResource} returns. */
export interface ToolResource {
  readonly uri: string;
  readonly name: string;
  readonly mimeType: string;
  /** Bytes; null when unknown. */
  readonly size: number | null;
}

/** The content of a resource. */
export interface ResourceContent {
  readonly mimeType: string;
  readonly bytes: Uint8Array;
  /** Whether the content is longer than what is returned. */
  readonly truncated: boolean;
}

/** The tools of a model over one or several environments. */
export interface AgentTools extends AsyncDisposable {
  readonly tools: readonly AgentTool[];
  tool(name: string): AgentTool | undefined;
  /** Runs a tool by its name, as {@link AgentTool.call} does. A name that is not in {@link tools} is a result with `isError`. */
  call(name: string, args: unknown, context?: ToolContext): Promise<ToolResult>;
  /**
   * Reads a resource of a result. Rejects with an Error whose message says what to do. Its `kind` is `notFound` for a process, file or
   * environment that does not exist.
   */
  readResource(uri: string, options?: { readonly signal?: AbortSignal }): Promise<ResourceContent>;
  /**
   * Replaces the roots of all environments, or of one: absolute native paths or `file:` URIs. The first is the default directory; all are
   * the workspace of the sandbox. Throws an Error for a path that is not absolute and for an environment that does not exist.
   */
  setRoots(roots: readonly string[], environment?: string): void;
  /** Ends all calls. Programs keep running; environments stay open. */
  close(): Promise<void>;
}

/** What the tools use of an environment. An {@link Environment} and a connected `ExecServerClient` both have it. */
export type ToolEnvironment = Pick<Environment, 'backend' | 'processes' | 'files' | 'info'> & {
  /** `local` marks programs that cannot outlive this one. */
  readonly kind?: Environment['kind'];
  /** Whether it is connected; of an {@link Environment}. */
  readonly connection?: Environment['connection'];
  /** The same of an `ExecServerClient`. */
  readonly state?: 'connected' | 'recovering' | 'failed' | 'closed';
};

/** The sandbox of programs and file tools. */
export type ToolSandbox = 'read-only' | 'workspace-write' | 'off';

/** A call that changes something, to be approved. */
export interface ApprovalRequest {
  readonly tool: AgentToolName;
  readonly title: string;
  readonly callId: string;
  readonly environment: string;
  /** What the call does, in one line: the command, or the path. */
  readonly summary: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Aborts when the decision is no longer needed. */
  readonly signal: AbortSignal;
}

export interface ApprovalDecision {
  readonly approved: boolean;
  /** For the model. */
  readonly reason?: string;
}

/** Options of `createAgentTools`. */
export interface AgentToolsOptions {
  /** Where the tools work; the first is the default. Names must differ. */
  readonly environments: readonly {
    readonly name: string;
    readonly environment: ToolEnvironment;
    /** The roots of this environment, instead of the common ones. */
    readonly roots?: readonly string[];
    /** The variables of programs, instead of those of the server. */
    readonly env?: Readonly<Record<string, string>>;
  }[];
  /** Absolute native paths or `file:` URIs on the environments. Default: the default directory of each environment. */
  readonly roots?: readonly string[];
  /** Only the tools that read. The others are not listed. Default: false. */
  readonly readOnly?: boolean;
  /**
   * The sandbox of programs and file tools. With `workspace-write` the roots are writable. With both, file tools work within the roots
   * only. A server that cannot enforce it refuses the call. Default: `off`.
   */
  readonly sandbox?: ToolSandbox;
  /** Decides about calls that change something. An exception refuses the call. Without it all are approved. */
  readonly approve?: (request: ApprovalRequest) => Promise<ApprovalDecision>;
  /** Whether calls without a cursor continue where earlier ones ended. Otherwise they begin at the start. Default: true. */
  readonly rememberPositions?: boolean;
  /** Tokens of output per call. Default: 10,000. */
  readonly maxOutputTokens?: number;
}
