// An agent with the AI SDK (npm install ai @ai-sdk/openai-compatible), on any endpoint that is compatible with OpenAI's.
//
//   MODEL_API_KEY=… MODEL_URL=https://HOST/v1 MODEL=… node examples/ai-sdk-tools.mjs "Which Node version is installed?"
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, stepCountIs } from 'ai';
import { aiSdkTools, createAgentTools } from 'exec-server/agent/tools';
import { LocalEnvironment } from 'exec-server/environment';

const { MODEL_API_KEY = '', MODEL_URL = 'http://127.0.0.1:11434/v1', MODEL = 'qwen3' } = process.env;
const provider = createOpenAICompatible({ name: 'endpoint', baseURL: MODEL_URL, apiKey: MODEL_API_KEY });
const environment = new LocalEnvironment();
const tools = createAgentTools({ environments: [{ name: 'here', environment }], roots: [process.cwd()] });

try {
  const { text } = await generateText({
    model: provider(MODEL),
    prompt: process.argv[2] ?? 'What is in this directory?',
    tools: aiSdkTools(tools, jsonSchema),
    stopWhen: stepCountIs(20),
  });
  console.log(text);
} finally {
  await tools.close();
  await environment.dispose();
}
