import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectMcp, type McpClient } from '../support/mcp-client.ts';
import { McpFixture } from '../support/mcp-server.ts';

let fixture: McpFixture;
let client: McpClient;

beforeAll(async () => {
  fixture = await McpFixture.open();
  client = await connectMcp('2025-11-25', { servers: fixture.servers, log: fixture.options.log });
});

afterAll(async () => {
  await client?.close();
  await fixture?.close();
});

test.each<[string, string, Record<string, unknown>, RegExp]>([
  ['a number for a text', 'exec_command', { cmd: 5 }, /"cmd" must be a string/],
  ['a text for a number', 'exec_command', { cmd: 'true', yield_time_ms: 'soon' }, /"yield_time_ms"/],
  ['a missing argument', 'exec_command', {}, /"cmd"/],
  ['an unknown argument', 'exec_command', { command: 'true' }, /"command"|"cmd"/],
  ['an unknown process', 'read_output', { process: 'nothing1' }, /nothing1/],
  ['a cursor that is none', 'read_output', { process: 'nothing1', cursor: 'x' }, /nothing1|cursor/],
  ['an unknown environment', 'exec_command', { cmd: 'true', environment: 'mars' }, /"environment"/],
  ['a missing file', 'read_file', { path: '/does/not/exist' }, /does not exist|no such/i],
  ['a directory for a file', 'read_file', { path: '/' }, /directory/],
  ['a path with NUL', 'read_file', { path: 'a\0b' }, /./],
])('%s gets a text that a model can act on', async (_, name, args, expected) => {
  const { text, isError } = await client.call(name, args);
  expect(isError).toBe(true);
  expect(text).toMatch(expected);
});

test('an unknown tool is an error of the protocol that names the tools', async () => {
  await expect(client.call('bash', {})).rejects.toThrow(/Unknown tool: "bash".*exec_command, write_stdin/);
});

test('50 concurrent calls are all answered', async () => {
  const calls = Array.from({ length: 50 }, (_, index) =>
    client.call('exec_command', { cmd: `echo answer-${index}-`, login: false }),
  );
  for (const [index, { text }] of (await Promise.all(calls)).entries()) {
    expect(text).toContain(`answer-${index}-`);
  }
});

test('100 MB of output and binary output are answered within the budget', async () => {
  const large = await client.call('exec_command', {
    cmd: 'head -c 100000000 /dev/zero | tr "\\0" x; echo; echo end',
    login: false,
    yield_time_ms: 30_000,
  });
  expect(large.text.length).toBeLessThan(60_000);
  expect(large.text).toMatch(/bytes omitted[\s\S]*end\n/);
  const binary = await client.call('exec_command', { cmd: 'head -c 100000 /dev/urandom', login: false });
  expect(binary.isError).toBe(false);
  expect(binary.text.length).toBeLessThan(60_000);
});
