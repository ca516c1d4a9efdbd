import type { AgentTools, JsonSchemaObject } from '../types.ts';

/** What the OpenAI Agents SDK passes to a tool, as far as it is used. */
interface CallDetails {
  readonly toolCall?: { readonly callId?: string };
  readonly signal?: AbortSignal;
}

/** The definition of a tool for `tool()` of `@openai/agents`. */
export interface OpenAiAgentsDefinition {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonSchemaObject;
  readonly strict: false;
  execute(input: unknown, context?: unknown, details?: CallDetails): Promise<string>;
}

/**
 * Returns the tools for an agent of the OpenAI Agents SDK: `tools: openAiAgentsTools(agentTools, tool)` with its own function `tool`.
 * Nothing of the SDK is loaded here. The model reads the text of a result, also that of a failure.
 */
export function openAiAgentsTools<Tool>(
  { tools }: Pick<AgentTools, 'tools'>,
  tool: (definition: never) => Tool,
): Tool[] {
  return tools.map(({ name, description, parameters, call }) => {
    const definition: OpenAiAgentsDefinition = {
      name,
      description,
      parameters,
      // Strict schemas have no optional arguments.
      strict: false,
      execute: async (input, _context, { toolCall, signal } = {}) =>
        (
          await call(input, {
            ...(toolCall?.callId && { callId: toolCall.callId }),
            ...(signal && { signal }),
          })
        ).text,
    };
    return tool(definition as never);
  });
}
