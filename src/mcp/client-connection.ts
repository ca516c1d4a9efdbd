import { randomUUID } from 'node:crypto';
import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type InputRequest,
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import {
  type AgentTool,
  type AgentTools,
  type ApprovalDecision,
  type ApprovalRequest,
  createAgentTools,
  type ResourceContent,
  type ToolResult,
} from '../agent/toolset/index.ts';
import { shownName } from '../agent/toolset/text/visible.ts';
import type { Workspaces } from './instructions.ts';
import { MAX_CANCELLED_CALLS, ROOTS_TIMEOUT_MS } from './limits.ts';
import { OpenQuestions } from './open-questions.ts';
import type { McpOptions } from './options.ts';
import { questionText } from './question.ts';
import type { RecentResources } from './recent-resources.ts';
import { type ChosenRoots, chooseRoots, NoWorkspaceError } from './workspace-roots.ts';

/** How a connection asks its client for roots. Clients without a session are not asked: each call would be asked again. */
type RootsPolicy = 'ask' | 'never';

/** The tools for one client, with its roots. The requests of clients without a session share one. */
export class ClientConnection {
  readonly tools: AgentTools;
  readonly #options: McpOptions;
  readonly #resources: RecentResources;
  readonly #rootsPolicy: RootsPolicy;
  /** The answers of the user, by the id of the call. */
  readonly #decisions = new Map<string, ApprovalDecision>();
  /** What calls need to know from the user, by the id of the call. */
  readonly #questions = new Map<string, ApprovalRequest>();
  readonly #workspaces = new Map<string, readonly string[]>();
  readonly #open = new OpenQuestions();
  /** What became of calls that the client has cancelled, for the next answer. */
  readonly #cancelled: string[] = [];
  /** What the next answer says about roots of the client that are not used. */
  #rootsNotice: RootsNotice | null = null;
  /** Null until the client has named its roots, and after it has changed them. */
  #roots: Promise<void> | null = null;

  constructor(options: McpOptions, resources: RecentResources, rootsPolicy: RootsPolicy) {
    this.#options = options;
    this.#resources = resources;
    this.#rootsPolicy = rootsPolicy;
    const { environments, readOnly, sandbox, ask } = options;
    this.tools = createAgentTools({
      environments: environments.map(({ name, environment, roots, env }) => ({
        name,
        environment,
        roots,
        ...(env && { env }),
      })),
      readOnly,
      sandbox,
      // Clients without a session are many.
      rememberPositions: rootsPolicy === 'ask',
      ...(ask && { approve: (request: ApprovalRequest) => this.#approve(request) }),
    });
    for (const { name, roots } of environments) {
      if (roots.length > 0) this.#workspaces.set(name, roots);
    }
  }

  /** The roots in use, by the name of the environment. None before the client has named them, and for the default directory. */
  get workspaces(): Workspaces {
    return this.#workspaces;
  }

  /** The client has changed its roots. The next call asks for them. */
  rootsChanged(): void {
    this.#roots = null;
  }

  /** Calls a tool. Throws ProtocolError for a tool that does not exist. */
  async call(
    server: Server,
    name: string,
    args: unknown,
    context: ServerContext,
  ): Promise<CallToolResult | InputRequiredResult> {
    const tool = this.tools.tool(name);
    if (tool === undefined) throw this.#unknownTool(name);
    const capabilities = capabilitiesOf(server, context);
    try {
      const missing = await this.#findRoots(capabilities, context);
      if (missing !== null) return missing;
    } catch (error) {
      if (error instanceof NoWorkspaceError) return refusal(error.message);
      throw error;
    }
    const notice = this.#rootsNotice;
    if (notice?.isElsewhere && !tool.annotations.readOnlyHint) {
      this.#rootsNotice = null;
      return refusal(`Nothing was done. ${notice.text} Repeat the call to work there.`);
    }
    return this.#run(tool, args, capabilities, context);
  }

  /** Reads a resource. Rejects with an Error whose message is for the model. */
  async read(
    server: Server,
    uri: string,
    context: ServerContext,
  ): Promise<ResourceContent | InputRequiredResult> {
    const missing = await this.#findRoots(capabilitiesOf(server, context), context);
    return missing ?? this.tools.readResource(uri, { signal: context.mcpReq.signal });
  }

  /** Ends all calls. Programs run on. */
  async close(): Promise<void> {
    await this.tools.close();
  }

  async #run(
    tool: AgentTool,
    args: unknown,
    capabilities: ClientCapabilities,
    context: ServerContext,
  ): Promise<CallToolResult | InputRequiredResult> {
    const { signal, inputResponses } = context.mcpReq;
    const callId = randomUUID();
    const canAsk = capabilities.elicitation !== undefined;
    const approved = canAsk ? this.#open.take(tool.name, args, inputResponses) : null;
    if (approved !== null) this.#decisions.set(callId, { approved });
    try {
      const onProgress = progressOf(context);
      const result = await tool.call(args, { callId, signal, ...(onProgress && { onProgress }) });
      const question = this.#questions.get(callId);
      if (question !== undefined && !signal.aborted) {
        if (!canAsk) return refusal(CANNOT_ASK);
        const directory = this.#workspaces.get(question.environment)?.[0] ?? null;
        const id = this.#open.open(tool.name, args);
        return inputRequired({ inputRequests: { [id]: questionFor(question, directory) } });
      }
      this.#resources.add(result.resources);
      if (!signal.aborted) return this.#answer(result);
      this.#rememberCancelled(tool, result);
      return refusal(result.text);
    } finally {
      this.#decisions.delete(callId);
      this.#questions.delete(callId);
    }
  }

  /** Throws when the user must be asked first: the call is then repeated with the answer. */
  async #approve(request: ApprovalRequest): Promise<ApprovalDecision> {
    const decision = this.#decisions.get(request.callId);
    if (decision !== undefined) return decision;
    this.#questions.set(request.callId, request);
    throw new Error('the user has not answered yet');
  }

  /** A cancelled request gets no answer. The program that it waited for runs on, and the model must be able to find it. */
  #rememberCancelled({ name }: AgentTool, { structured }: ToolResult): void {
    const { cancelled, process, environment, from_cursor: cursor } = structured;
    if (cancelled !== true) return;
    this.#cancelled.push(
      `An earlier call of ${name} was cancelled. The program was not: process ${process} in the environment "${environment}" keeps running. read_output with the cursor ${cursor} returns its output.`,
    );
    if (this.#cancelled.length > MAX_CANCELLED_CALLS) this.#cancelled.shift();
  }

  #answer(result: ToolResult): CallToolResult {
    const { text, isError, structured, resources } = result;
    const advice = structured.kind === 'sandboxUnavailable' ? ` ${WITHOUT_SANDBOX}` : '';
    const notes = this.#rootsPolicy === 'ask' ? this.#cancelled.splice(0) : [];
    if (this.#rootsNotice !== null) notes.unshift(this.#rootsNotice.text);
    this.#rootsNotice = null;
    return {
      content: [
        ...notes.map((note) => ({ type: 'text' as const, text: note })),
        { type: 'text', text: `${text}${advice}` },
        ...resources.map(({ uri, name, mimeType, size }) => ({
          type: 'resource_link' as const,
          uri,
          name,
          mimeType,
          ...(size !== null && { size }),
        })),
      ],
      ...(isError && { isError }),
      _meta: { 'exec-server/result': factsOf(structured) },
    };
  }

  /**
   * Sets the roots of the client before its first call. Returns the request for them where the protocol has no requests to clients.
   */
  async #findRoots(
    capabilities: ClientCapabilities,
    context: ServerContext,
  ): Promise<InputRequiredResult | null> {
    if (this.#roots !== null) {
      await this.#roots;
      return null;
    }
    const canAsk = this.#rootsPolicy === 'ask' && capabilities.roots !== undefined && this.#usesRoots;
    const { envelope, inputResponses } = context.mcpReq;
    const answer = inputResponse(inputResponses, ROOTS);
    if (canAsk && envelope !== undefined && answer.kind !== 'roots') {
      return inputRequired({ inputRequests: { [ROOTS]: inputRequired.listRoots() } });
    }
    const given = answer.kind === 'roots' ? Promise.resolve(answer.roots) : null;
    this.#roots = (given ?? (canAsk ? this.#requestRoots(context) : Promise.resolve([]))).then((roots) =>
      this.#setRoots(roots.map(({ uri }) => uri)),
    );
    // The user may correct the roots, so the next call asks again.
    this.#roots.catch(() => this.rootsChanged());
    await this.#roots;
    return null;
  }

  get #usesRoots(): boolean {
    return this.#options.environments.some(({ isLocal }) => isLocal);
  }

  /** Asks on the stream of the call: a client may have no other. */
  async #requestRoots({ mcpReq }: ServerContext): Promise<readonly { readonly uri: string }[]> {
    try {
      return (await mcpReq.send({ method: 'roots/list' }, { timeout: ROOTS_TIMEOUT_MS })).roots;
    } catch (error) {
      this.#options.log.warn('the client does not name its roots', { reason: (error as Error).message });
      return [];
    }
  }

  #setRoots(uris: readonly string[]): void {
    this.#rootsNotice = null;
    for (const { name, isLocal, roots } of this.#options.environments) {
      if (!isLocal) continue;
      const chosen = chooseRoots(uris, roots, this.#options);
      this.tools.setRoots(chosen.roots, name);
      this.#workspaces.set(name, chosen.roots);
      this.#rootsNotice ??= noticeOf(chosen);
    }
  }

  #unknownTool(name: string): ProtocolError {
    const names = this.tools.tools.map((tool) => tool.name).join(', ');
    return new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      `Unknown tool: ${JSON.stringify(name.slice(0, 100))}. The tools are ${names}.`,
    );
  }
}

/** What a model must know of roots that are not used. */
interface RootsNotice {
  readonly text: string;
  /** Whether the tools work in another directory than the client expects. */
  readonly isElsewhere: boolean;
}

function noticeOf({ roots, unused, isElsewhere }: ChosenRoots): RootsNotice | null {
  if (unused === null) return null;
  return { text: `${unused} The tools work in ${roots.map(shownName).join(', ')}.`, isElsewhere };
}

/** The key of the request for roots. Keys of questions have a prefix. */
const ROOTS = 'roots';

const WITHOUT_SANDBOX =
  'Or the user adds `--sandbox off` to the arguments of `exec-server mcp`, to run without one.';

const CANNOT_ASK =
  'This server asks the user before each change (--ask), and this client cannot show questions: it does not support elicitation. Tell the user to remove --ask from the arguments of exec-server mcp, or to use a client with elicitation.';

/**
 * What a program may want to know of a result, without what the text contains. It is not `structuredContent`: clients show that to the
 * model in place of the text, as JSON with escaped lines.
 */
function factsOf({ output, content, ...facts }: ToolResult['structured']): ToolResult['structured'] {
  return facts;
}

/** Clients of the 2026 protocol declare their capabilities with each request. */
function capabilitiesOf(server: Server, { mcpReq }: ServerContext): ClientCapabilities {
  const envelope = mcpReq.envelope as Readonly<Record<string, unknown>> | undefined;
  const declared = envelope?.[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined;
  return declared ?? server.getClientCapabilities() ?? {};
}

function questionFor(request: ApprovalRequest, directory: string | null): InputRequest {
  return inputRequired.elicit({
    message: questionText(request, directory),
    requestedSchema: { type: 'object', properties: {} },
  });
}

/** Reports progress to a client that has asked for it. */
function progressOf({ mcpReq }: ServerContext) {
  const { _meta: meta } = mcpReq;
  const progressToken = meta?.progressToken;
  if (progressToken === undefined) return null;
  return ({ elapsedMs, message }: { readonly elapsedMs: number; readonly message: string }) => {
    const params = { progressToken, progress: elapsedMs / 1_000, message };
    // A client that is gone needs no progress.
    mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {});
  };
}

/** A result that says why nothing was done. */
export function refusal(text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}
