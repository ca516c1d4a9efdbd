// An agent with the OpenAI Agents SDK (npm install @openai/agents).
//
//   OPENAI_API_KEY=… node examples/openai-agents-tools.mjs "Which Node version is installed?"
import { Agent, run, setTracingDisabled, tool } from '@openai/agents';
import { createAgentTools, openAiAgentsTools } from 'exec-server/agent/tools';
import { LocalEnvironment } from 'exec-server/environment';

setTracingDisabled(true);
const environment = new LocalEnvironment();
const tools = createAgentTools({ environments: [{ name: 'here', environment }], roots: [process.cwd()] });
const agent = new Agent({
  name: 'Operator',
  instructions: 'Use the tools to answer. Check before you claim.',
  tools: openAiAgentsTools(tools, tool),
});

try {
  const { finalOutput } = await run(agent, process.argv[2] ?? 'What is in this directory?', { maxTurns: 20 });
  console.log(finalOutput);
} finally {
  await tools.close();
  await environment.dispose();
}
