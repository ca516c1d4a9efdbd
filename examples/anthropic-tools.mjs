// An agent on the Messages API of Anthropic: the model works with the tools until it answers.
//
//   ANTHROPIC_API_KEY=… node examples/anthropic-tools.mjs "Which Node version is installed?"
//
// The loop needs no package. With @anthropic-ai/sdk it is one call:
//   client.beta.messages.toolRunner({ model, max_tokens, messages, tools: anthropicTools(tools) })
import { anthropicToolResults, anthropicTools, createAgentTools } from 'exec-server/agent/tools';
import { LocalEnvironment } from 'exec-server/environment';

const { ANTHROPIC_API_KEY = '', ANTHROPIC_BASE_URL = 'https://api.anthropic.com' } = process.env;
const environment = new LocalEnvironment();
const tools = createAgentTools({ environments: [{ name: 'here', environment }], roots: [process.cwd()] });
const messages = [{ role: 'user', content: process.argv[2] ?? 'What is in this directory?' }];

async function ask() {
  const response = await fetch(`${ANTHROPIC_BASE_URL}/v1/messages`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-api-key': ANTHROPIC_API_KEY,
      'anthropic-version': '2023-06-01',
    },
    body: JSON.stringify({
      model: 'claude-sonnet-5',
      max_tokens: 4096,
      messages,
      tools: anthropicTools(tools),
    }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return response.json();
}

try {
  for (let turn = 0; turn < 20; turn++) {
    const { content } = await ask();
    messages.push({ role: 'assistant', content });
    for (const { type, text } of content) if (type === 'text') console.log(text);
    const results = await anthropicToolResults(tools, content);
    if (results.length === 0) break;
    messages.push({ role: 'user', content: results });
  }
} finally {
  await tools.close();
  await environment.dispose();
}
