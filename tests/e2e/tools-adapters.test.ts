import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { jsonSchema, ToolSet } from 'ai';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { OpenAiAgentsDefinition } from '../../src/agent/toolset/index.ts';
import {
  type AgentTools,
  aiSdkTools,
  anthropicToolResults,
  anthropicTools,
  openAiAgentsTools,
} from '../../src/agent/toolset/index.ts';
import { openToolBench, type ToolBench } from '../support/agent-tools.ts';
import { FakeModel } from '../support/fake-model.ts';

let bench: ToolBench;

beforeAll(async () => {
  bench = await openToolBench();
});

afterAll(() => bench?.close());

const CALLS = [
  { name: 'exec_command', arguments: { cmd: 'echo $((6*7))', login: false } },
  { name: 'read_file', arguments: { path: '/nonexistent' } },
];

/** Runs an example with a model that calls two tools, of which one fails. Returns its output and the second request. */
async function runExample(name: string, envFor: (url: string) => Record<string, string>) {
  const model = await FakeModel.open(CALLS, 'The answer is 42.');
  onTestFinished(() => model.close());
  const example = fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
  const env = { ...process.env, ...envFor(model.url) };
  const { stdout } = await promisify(execFile)(process.execPath, [example, 'How much is 6*7?'], { env });
  expect(model.requests).toHaveLength(2);
  return { stdout, first: model.requests[0]!.body, second: model.requests[1]!.body };
}

const isInstalled = (name: string) => {
  try {
    return createRequire(import.meta.url).resolve(name) !== '';
  } catch {
    return false;
  }
};

describe('the example', () => {
  test('of the Anthropic Messages API', async () => {
    const { stdout, first, second } = await runExample('anthropic-tools.mjs', (url) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'key',
    }));
    expect(stdout).toBe('The answer is 42.\n');
    expect(first.tools).toHaveLength(11);
    expect(first.tools[0]).toMatchObject({
      name: 'exec_command',
      input_schema: { type: 'object', required: ['cmd'] },
    });
    expect(second.messages.at(-1).content).toEqual([
      {
        type: 'tool_result',
        tool_use_id: 'toolu_0',
        is_error: false,
        content: expect.stringContaining('Output:\n42\n'),
      },
      {
        type: 'tool_result',
        tool_use_id: 'toolu_1',
        is_error: true,
        content: expect.stringContaining('does not exist'),
      },
    ]);
  });

  test('of the AI SDK', async () => {
    const { stdout, first, second } = await runExample('ai-sdk-tools.mjs', (url) => ({
      MODEL_URL: `${url}/v1`,
      MODEL: 'fake',
    }));
    expect(stdout).toBe('The answer is 42.\n');
    expect(first.tools).toHaveLength(11);
    expect(first.tools[0].function).toMatchObject({
      name: 'exec_command',
      parameters: { type: 'object', required: ['cmd'] },
    });
    const results = second.messages.filter(({ role }: { role: string }) => role === 'tool');
    expect(results).toMatchObject([
      { tool_call_id: 'call_0', content: expect.stringContaining('Output:\n42\n') },
      { tool_call_id: 'call_1', content: expect.stringContaining('does not exist') },
    ]);
  });

  // The package has 85 MB and needs Node 22, so it is not a dependency for development.
  test.skipIf(!isInstalled('@openai/agents'))('of the OpenAI Agents SDK', async () => {
    const { stdout, first, second } = await runExample('openai-agents-tools.mjs', (url) => ({
      OPENAI_BASE_URL: `${url}/v1`,
      OPENAI_API_KEY: 'key',
    }));
    expect(stdout).toBe('The answer is 42.\n');
    expect(first.tools).toHaveLength(11);
    expect(first.tools[0]).toMatchObject({ type: 'function', name: 'exec_command', strict: false });
    const results = second.input.filter(({ type }: { type: string }) => type === 'function_call_output');
    expect(results).toMatchObject([
      { call_id: 'call_0', output: expect.stringContaining('Output:\n42\n') },
      { call_id: 'call_1', output: expect.stringContaining('does not exist') },
    ]);
  });
});

test('the definitions for the OpenAI Agents SDK pass call id and signal on', async () => {
  const definitions = openAiAgentsTools(bench.tools, (definition: OpenAiAgentsDefinition) => definition);
  const exec = definitions.find(({ name }) => name === 'exec_command')!;
  expect(exec.strict).toBe(false);
  const cancelled = AbortSignal.abort();
  const details = { toolCall: { callId: 'call-7' }, signal: cancelled };
  expect(
    await exec.execute(
      { cmd: 'echo "$CODEX_TOOL_CALL_ID"', login: false },
      {},
      { ...details, signal: new AbortController().signal },
    ),
  ).toContain('Output:\ncall-7\n');
  expect(await exec.execute({ cmd: 'true' }, {}, details)).not.toContain('exited with code 0');
});

test('the tools of the AI SDK fit its types', () => {
  const create: (tools: AgentTools, schema: typeof jsonSchema) => ToolSet = aiSdkTools;
  const set = create(bench.tools, ((schema: unknown) => schema) as never);
  expect(Object.keys(set)).toEqual(bench.tools.tools.map(({ name }) => name));
});

test('a tool of the Anthropic tool runner rejects when its call fails', async () => {
  const tools = anthropicTools(bench.tools);
  const read = tools.find(({ name }) => name === 'read_file')!;
  await expect(read.run(read.parse({ path: 'missing' }))).rejects.toThrow('does not exist');
  expect(JSON.parse(JSON.stringify(read))).toEqual({
    name: 'read_file',
    description: read.description,
    input_schema: read.input_schema,
  });
});

test('a call of a tool that does not exist is an error for the model', async () => {
  const results = await anthropicToolResults(bench.tools, [
    { type: 'text', text: 'hm' },
    { type: 'tool_use', id: 'a', name: 'fly', input: {} },
  ]);
  expect(results).toEqual([
    {
      type: 'tool_result',
      tool_use_id: 'a',
      is_error: true,
      content: expect.stringContaining('There is no tool "fly".'),
    },
  ]);
});
