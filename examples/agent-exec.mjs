// Runs the tool calls of a model on an exec-server and prints what the model would read.
//
//   node examples/agent-exec.mjs [ws://HOST:PORT]     without an address it starts a server of its own
import { AgentExec, EXEC_COMMAND_TOOL, environmentTarget, WRITE_STDIN_TOOL } from 'exec-server/agent';
import { EnvironmentManager } from 'exec-server/environment';
import { startServer } from 'exec-server/testing';

const server = process.argv[2] === undefined ? await startServer() : null;
const manager = new EnvironmentManager({
  environments: [{ id: 'remote', transport: { type: 'websocket', url: process.argv[2] ?? server.url } }],
  default: 'remote',
  includeLocal: false,
});
const events = [];
const exec = new AgentExec({
  targets: [await environmentTarget(manager.get('remote'), { cwd: 'file:///tmp' })],
  onEvent: (event) => events.push(event.type),
});

/** What an agent loop does with a tool call: the answer, or the error, goes back to the model as text. */
async function call(name, args, callId) {
  try {
    if (name === EXEC_COMMAND_TOOL.name) return await exec.execCommand(args, { callId });
    if (name === WRITE_STDIN_TOOL.name) return await exec.writeStdin(args);
    throw new Error(`there is no tool ${name}`);
  } catch (error) {
    return { text: error.text ?? error.message, sessionId: null };
  }
}

function show(title, { text }) {
  // Times and ids differ from run to run.
  const steady = text
    .replace(/^(Chunk ID|Wall time): .*\n/gm, '')
    .replace(/session (ID )?\d+/, 'session $1N');
  process.stdout.write(`# ${title}\n${steady}${steady.endsWith('\n') ? '' : '\n'}\n`);
}

process.stdout.write(`tools: ${EXEC_COMMAND_TOOL.name}, ${WRITE_STDIN_TOOL.name}\n\n`);
try {
  show(
    'a command',
    await call('exec_command', '{"cmd":"pwd; echo oops >&2; exit 3","login":false}', 'call-1'),
  );

  const question = await call(
    'exec_command',
    { cmd: 'printf "name? "; read name; echo "hello $name"', tty: true, login: false, yield_time_ms: 2000 },
    'call-2',
  );
  show('a question', question);
  const answer = { session_id: question.sessionId, chars: 'bob\n', yield_time_ms: 5000 };
  show('its answer', await call('write_stdin', answer, 'call-3'));

  show('a mistake', await call('write_stdin', { session_id: question.sessionId }, 'call-4'));
  const count = (type) => events.filter((event) => event === type).length;
  process.stdout.write(`${count('begin')} programs begun, ${count('end')} ended\n`);
} finally {
  await exec.close();
  await manager.dispose();
  await server?.close();
}
