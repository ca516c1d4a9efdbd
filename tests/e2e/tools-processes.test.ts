import { mkdtemp, realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type AgentTools, createAgentTools } from '../../src/agent/toolset/index.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';

let server: TestServer;
let client: ExecServerClient;
let root: string;
let tools: AgentTools;

beforeAll(async () => {
  server = await startServer();
  client = await ExecServerClient.connect(server.url);
  root = await realpath(await mkdtemp(join(tmpdir(), 'tools-')));
  tools = createAgentTools({ environments: [{ name: 'box', environment: client }], roots: [root] });
});

afterAll(async () => {
  await tools?.close();
  await client?.close();
  await server?.close();
});

const call = (name: string, args: unknown) => tools.tool(name)!.call(args);

test('exec_command returns output and exit code', async () => {
  const result = await call('exec_command', { cmd: 'pwd; echo err >&2; exit 3', login: false });
  expect(result.isError).toBe(false);
  expect(result.structured).toMatchObject({ state: 'exited', exit_code: 3, omitted_bytes: 0, lost_bytes: 0 });
  expect(result.structured.output).toContain(root);
  console.log(result.text);
  const running = await call('exec_command', { cmd: 'echo a; sleep 5', login: false, yield_time_ms: 250 });
  console.log(running.text);
});
