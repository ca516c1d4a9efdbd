import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { MCP_END_GRACE_MS } from '../../../../src/environment/limits.ts';
import { McpStdioTransport } from '../../../../src/environment/mcp/stdio-transport.ts';
import { FakeServer, SILENCE } from '../../client/fake-server.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A transport to an MCP server, and whether it is closed. */
async function started(server: FakeServer) {
  const client = await server.connect();
  const transport = new McpStdioTransport(client.backend, { argv: ['mcp'], cwd: 'file:///' });
  const seen = { closes: 0, closed: false };
  transport.onclose = () => {
    seen.closes++;
  };
  await transport.start();
  const close = () =>
    transport.close().then(() => {
      seen.closed = true;
    });
  const { processId } = server.requests('process/start')[0]!.params;
  return { client, transport, seen, close, processId };
}

test('close does not terminate a server that exits with its stdin', async () => {
  const server = new FakeServer();
  const { client, seen, close, processId } = await started(server);
  server.answers['process/closeStdin'] = (_params, link) => {
    link.exited(processId, 1);
    link.closedProcess(processId, 2);
    return { status: 'closed' };
  };
  await close();
  expect(seen).toEqual({ closes: 1, closed: true });
  expect(server.requests('process/terminate')).toEqual([]);
  await client.close();
});

test('ends after the exit of a server whose output another process keeps open', async () => {
  const server = new FakeServer();
  const { client, seen, transport, processId } = await started(server);
  const received: object[] = [];
  transport.onmessage = (message) => received.push(message);
  transport.onerror = (error) => received.push(error);
  const link = server.links.at(-1)!;
  link.exited(processId, 1, 5);
  link.output(processId, 2, '{"last":1}\n');
  await vi.waitFor(() => expect(received).toEqual([{ last: 1 }]));
  expect(seen.closes).toBe(0);
  await expect(transport.send({})).rejects.toThrow('the MCP server is not running');
  await vi.advanceTimersByTimeAsync(MCP_END_GRACE_MS);
  await vi.waitFor(() => expect(seen.closes).toBe(1));
  expect(transport.exitCode).toBe(5);
  expect(server.requests('process/terminate')).toHaveLength(1);
  expect(received).toHaveLength(1);
  await client.close();
});

test('close terminates a server that keeps running', async () => {
  const server = new FakeServer();
  const { client, seen, close, processId } = await started(server);
  server.answers['process/terminate'] = (_params, link) => {
    link.exited(processId, 1, 137);
    link.closedProcess(processId, 2);
    return { running: true };
  };
  const closing = close();
  await vi.advanceTimersByTimeAsync(MCP_END_GRACE_MS);
  await closing;
  expect(seen).toEqual({ closes: 1, closed: true });
  await client.close();
});

test.each([
  [
    'whose executor does not answer',
    { 'process/closeStdin': () => SILENCE, 'process/terminate': () => SILENCE },
  ],
  ['whose output stays open', {}],
])('close waits a limited time for a server %s', async (_name, answers) => {
  const server = new FakeServer();
  Object.assign(server.answers, answers);
  const { client, seen, close, transport } = await started(server);
  const closing = close();
  await vi.advanceTimersByTimeAsync(3 * MCP_END_GRACE_MS);
  await closing;
  expect(seen).toEqual({ closes: 1, closed: true });
  expect(server.requests('process/terminate')).toHaveLength(1);
  await expect(transport.send({})).rejects.toThrow('the MCP server is not running');
  await client.close();
  expect(seen.closes).toBe(1);
});
