// An MCP client as a program of its own, which a test can kill. It starts `exec-server mcp` and reads the output of a job from a
// cursor on. It prints what it gets as lines of JSON.
import { writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const { values: options } = parseArgs({
  options: {
    environment: { type: 'string' },
    /** Starts this command as the job. */
    command: { type: 'string' },
    /** Reads the output of a job that is already there. */
    process: { type: 'string' },
    cursor: { type: 'string', default: '0' },
  },
});

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const POLL_MS = 500;
/** A call that fails while the connection is cut is repeated, as a model repeats it. */
const MAX_FAILURES = 60;

const client = new Client({ name: 'soak', version: '1' });
const transport = new StdioClientTransport({
  command: process.execPath,
  args: [BIN, 'mcp', '-E', options.environment, '--root', '/tmp', '--sandbox', 'off'],
  env: process.env,
});
await client.connect(transport);
client.onclose = () => process.exit(1);

async function call(name, args) {
  const { content, isError = false, _meta } = await client.callTool({ name, arguments: args });
  return { text: content[0].text, isError, facts: _meta?.['exec-server/result'] ?? {} };
}

function report(message) {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

async function startJob() {
  const { text, isError, facts } = await call('exec_command', {
    cmd: options.command,
    login: false,
    yield_time_ms: 250,
  });
  if (isError) throw new Error(`exec_command: ${text}`);
  return facts.process;
}

const pause = () => new Promise((resolve) => setTimeout(resolve, POLL_MS));

const job = options.process ?? (await startJob());
report({ process: job, mcpPid: transport.pid });
for (let cursor = options.cursor, failures = 0; ; ) {
  const { text, isError, facts } = await call('read_output', { process: job, cursor });
  if (isError) {
    report({ failure: text });
    if (++failures > MAX_FAILURES) throw new Error(`read_output: ${text}`);
    await pause();
    continue;
  }
  const { state, exit_code: exitCode, next_cursor: next, lost_bytes: lostBytes = 0 } = facts;
  const output = /^Output:\n([\s\S]*)$/m.exec(text)?.[1] ?? '';
  report({ output, cursor: next, lostBytes });
  if (next === cursor) {
    if (state === 'exited') {
      report({ exitCode });
      break;
    }
    await pause();
  }
  cursor = next;
}
client.onclose = () => {};
await client.close();
