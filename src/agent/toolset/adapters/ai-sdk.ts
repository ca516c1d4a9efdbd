import type { AgentTools } from '../types.ts';

/** A tool of the AI SDK. `Schema` is what its `jsonSchema` returns. */
export interface AiSdkTool<Schema> {
  readonly title: string;
  readonly description: string;
  readonly inputSchema: Schema;
  /** Rejects when the call failed, which the SDK reports to the model. */
  execute(
    input: unknown,
    options?: { readonly toolCallId?: string; readonly abortSignal?: AbortSignal | undefined },
  ): Promise<string>;
}

/**
 * Returns the tools for `generateText`, `streamText` and agents of the AI SDK: `tools: aiSdkTools(agentTools, jsonSchema)` with its own
 * function `jsonSchema`. Nothing of the SDK is loaded here.
 */
export function aiSdkTools<Schema>(
  { tools }: Pick<AgentTools, 'tools'>,
  jsonSchema: (schema: never) => Schema,
): Record<string, AiSdkTool<Schema>> {
  return Object.fromEntries(
    tools.map(({ name, title, description, parameters, call }) => [
      name,
      {
        title,
        description,
        inputSchema: jsonSchema(parameters as never),
        async execute(input, { toolCallId, abortSignal } = {}) {
          const { text, isError } = await call(input, {
            ...(toolCallId && { callId: toolCallId }),
            ...(abortSignal && { signal: abortSignal }),
          });
          if (isError) throw new Error(text);
          return text;
        },
      } satisfies AiSdkTool<Schema>,
    ]),
  );
}
