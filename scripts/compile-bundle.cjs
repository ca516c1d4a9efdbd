// Runs the bin argv[2] with the command argv[3] up to its first response and lets it write the code cache of what has run.
const { PassThrough } = require('node:stream');

const [, , bin, command] = process.argv;
const arguments_ = command === 'mcp' ? ['mcp'] : ['--listen', 'ws://127.0.0.1:0'];
process.argv.splice(1, Number.POSITIVE_INFINITY, bin, ...arguments_);
const stdin = new PassThrough();
if (command === 'mcp') Object.defineProperty(process, 'stdin', { value: stdin });
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = (text, ...rest) => {
  if (String(text).startsWith('ws://')) void warmUp(String(text).trim());
  if (command === 'mcp') warmUpMcp(String(text));
  return write(text, ...rest);
};
const { writeBuildCache } = require(bin);
if (command === 'mcp') send({ id: 1, method: 'initialize', params: mcpClient() });

async function warmUp(url) {
  const { WebSocket } = await import('ws');
  const socket = new WebSocket(url);
  socket.on('open', () => socket.send('{"id":1,"method":"initialize","params":{"clientName":"build"}}'));
  socket.on('message', () => finish());
}

function warmUpMcp(answer) {
  if (answer.includes('"id":1')) {
    send({ method: 'notifications/initialized' });
    send({ id: 2, method: 'tools/list' });
  }
  if (answer.includes('"id":2')) finish();
}

function mcpClient() {
  return { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'build', version: '1' } };
}

function send(message) {
  stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

function finish() {
  writeBuildCache().then(
    () => process.exit(0),
    () => process.exit(1),
  );
}
