// Lists the tools of an MCP server that runs on an exec-server, and calls one of them.
//
//   node examples/mcp-tools.mjs [ws://HOST:PORT]     without an address it starts a server of its own
import { createRequire } from 'node:module';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { EnvironmentManager, openMcpTransport } from 'exec-server/environment';
import { startServer } from 'exec-server/testing';

const server = process.argv[2] === undefined ? await startServer() : null;
const manager = new EnvironmentManager({
  environments: [{ id: 'remote', transport: { type: 'websocket', url: process.argv[2] ?? server.url } }],
  default: 'remote',
  includeLocal: false,
});
const everything = createRequire(import.meta.url).resolve(
  '@modelcontextprotocol/server-everything/dist/index.js',
);

const client = new Client({ name: 'example', version: '1' });
try {
  // With `url` in place of `command` the server is one of the web, as the executor sees it.
  const transport = await openMcpTransport(manager, {
    environmentId: 'remote',
    command: 'node',
    args: [everything, 'stdio'],
  });
  await client.connect(transport);
  const { tools } = await client.listTools();
  process.stdout.write(`tools: ${tools.map(({ name }) => name).join(', ')}\n`);
  const { content } = await client.callTool({ name: 'echo', arguments: { message: 'hello' } });
  process.stdout.write(`${content[0].text}\n`);
} finally {
  await client.close();
  await manager.dispose();
  await server?.close();
}
