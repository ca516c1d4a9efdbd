import { PassThrough, Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { AgentServers } from '../../../src/mcp/agent-server.ts';
import type { McpOptions } from '../../../src/mcp/options.ts';
import { serveMcpStdio } from '../../../src/mcp/serve-stdio.ts';
import { createLogger } from '../../../src/observability/log.ts';

test('a client that has ended is not logged as one that sends invalid messages', async () => {
  const logged: string[] = [];
  const log = createLogger('warn', (line) => logged.push(line));
  const environment = { name: 'local', environment: {}, isLocal: true, roots: [] };
  const options = { environments: [environment], readOnly: false, sandbox: 'off', directory: '/tmp', log };
  const output = new Writable({
    write: (_chunk, _encoding, done) => done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })),
  });
  output.on('error', () => {});
  const input = new PassThrough();
  const client = serveMcpStdio(new AgentServers(options as unknown as McpOptions), input, output, log);
  input.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n`);
  await client.closed;
  expect(logged).toEqual([]);
});
