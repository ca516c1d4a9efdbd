export { type AiSdkTool, aiSdkTools } from './adapters/ai-sdk.ts';
export {
  type AnthropicTool,
  type AnthropicToolResult,
  anthropicToolResults,
  anthropicTools,
} from './adapters/anthropic.ts';
export { type OpenAiAgentsDefinition, openAiAgentsTools } from './adapters/openai-agents.ts';
export { createAgentTools } from './create-agent-tools.ts';
export type * from './types.ts';
