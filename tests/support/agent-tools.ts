import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AgentTools, type AgentToolsOptions, createAgentTools } from '../../src/agent/toolset/index.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import type { ExecServerConfig } from '../../src/server/config/config.ts';
import { startServer } from '../../src/testing/index.ts';

/** A server in this process, a directory, and tools that work in it. */
export interface ToolBench {
  readonly url: string;
  readonly root: string;
  readonly client: ExecServerClient;
  readonly tools: AgentTools;
  /** Further tools over a connection of their own, as of another program. */
  another(options?: Partial<AgentToolsOptions>): Promise<AgentTools>;
  close(): Promise<void>;
}

export async function openToolBench(
  options: Partial<AgentToolsOptions> = {},
  config: Partial<ExecServerConfig> = {},
): Promise<ToolBench> {
  const server = await startServer(config);
  const root = await realpath(await mkdtemp(join(tmpdir(), 'agent-tools-')));
  const clients: ExecServerClient[] = [];
  const all: AgentTools[] = [];
  const another = async (more: Partial<AgentToolsOptions> = {}) => {
    const client = await ExecServerClient.connect(server.url);
    clients.push(client);
    const environments = [{ name: 'box', environment: client }];
    const tools = createAgentTools({ environments, roots: [root], ...options, ...more });
    all.push(tools);
    return tools;
  };
  const tools = await another();
  return {
    url: server.url,
    root,
    client: clients[0]!,
    tools,
    another,
    async close() {
      await Promise.all(all.map((each) => each.close()));
      await Promise.all(clients.map((each) => each.close()));
      await server.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}
