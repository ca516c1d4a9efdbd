import { isObject } from '../../../base/is-object.ts';
import type { AgentTools, JsonSchemaObject } from '../types.ts';

/**
 * A tool for the Messages API of Anthropic. `run` and `parse` are for the tool runner of its SDK; they are not part of the request,
 * because JSON has no functions.
 */
export interface AnthropicTool {
  readonly name: string;
  readonly description: string;
  readonly input_schema: { readonly type: 'object' } & JsonSchemaObject;
  /** Rejects when the call failed, which the tool runner reports to the model. */
  run(
    input: unknown,
    context?: { readonly toolUse?: { readonly id?: string }; readonly signal?: AbortSignal | null },
  ): Promise<string>;
  parse(input: unknown): unknown;
}

/** The result of a tool for the next message of the user. */
export interface AnthropicToolResult {
  readonly type: 'tool_result';
  readonly tool_use_id: string;
  readonly content: string;
  readonly is_error: boolean;
}

/** Returns the tools for `tools` of a request to the Messages API, and for `client.beta.messages.toolRunner`. */
export function anthropicTools({ tools }: Pick<AgentTools, 'tools'>): AnthropicTool[] {
  return tools.map(({ name, description, parameters, call }) => ({
    name,
    description,
    input_schema: parameters,
    parse: (input) => input,
    async run(input, { toolUse, signal } = {}) {
      const { text, isError } = await call(input, {
        ...(toolUse?.id && { callId: toolUse.id }),
        ...(signal && { signal }),
      });
      if (isError) throw new Error(text);
      return text;
    },
  }));
}

/**
 * Runs the calls of a message of the model, concurrently, and returns their results in order for the next message. Empty when the message
 * has no calls. `content` is that of the response; blocks of other types are ignored.
 */
export async function anthropicToolResults(
  agentTools: Pick<AgentTools, 'call'>,
  content: readonly unknown[],
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<AnthropicToolResult[]> {
  const uses = content.filter((block) => isObject(block) && block.type === 'tool_use') as readonly {
    readonly id: string;
    readonly name: string;
    readonly input: unknown;
  }[];
  return Promise.all(
    uses.map(async ({ id, name, input }) => {
      const { text, isError } = await agentTools.call(name, input, { callId: id, ...(signal && { signal }) });
      return { type: 'tool_result', tool_use_id: id, content: text, is_error: isError };
    }),
  );
}
