// Runs the bin argv[2] with a command of the bundle argv[3] and lets it write the code cache of what has run: a server and the MCP server up to
// their first response, a client to the end of a program.
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { PassThrough } = require('node:stream');

const SERVE = ['--listen', 'ws://127.0.0.1:0'];
const [, , bin, bundle] = process.argv;
const write = process.stdout.write.bind(process.stdout);
/** Writes the code cache. The bin offers it when it has begun. */
let writeBuildCache = () => process.exit(1);

if (bundle === 'client') void warmUpClient();
else if (bundle === 'mcp') warmUpMcp();
else warmUpServer();

/** Runs the bin in this process. */
function run(args) {
  process.argv.splice(1, Number.POSITIVE_INFINITY, bin, ...args);
  ({ writeBuildCache } = require(bin));
}

function finish() {
  writeBuildCache();
  process.exit(0);
}

async function warmUpClient() {
  const server = spawn(process.execPath, [bin, ...SERVE], { stdio: ['ignore', 'pipe', 'ignore'] });
  server.once('exit', () => process.exit(1));
  const [url] = await once(server.stdout, 'data');
  process.once('exit', (code) => {
    server.kill();
    if (code === 0) writeBuildCache();
  });
  run(['run', '-E', String(url).trim(), '--', 'true']);
}

function warmUpServer() {
  process.stdout.write = (text, ...rest) => {
    if (String(text).startsWith('ws://')) void useServer(String(text).trim());
    return write(text, ...rest);
  };
  run(SERVE);
}

async function useServer(url) {
  const { WebSocket } = await import('ws');
  const socket = new WebSocket(url);
  socket.on('open', () => socket.send('{"id":1,"method":"initialize","params":{"clientName":"build"}}'));
  socket.on('message', finish);
}

function warmUpMcp() {
  const stdin = new PassThrough();
  Object.defineProperty(process, 'stdin', { value: stdin });
  const send = (message) => stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  process.stdout.write = (text, ...rest) => {
    if (String(text).includes('"id":1')) {
      send({ method: 'notifications/initialized' });
      send({ id: 2, method: 'tools/list' });
    }
    if (String(text).includes('"id":2')) finish();
    return write(text, ...rest);
  };
  run(['mcp']);
  const clientInfo = { name: 'build', version: '1' };
  send({
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
  });
}
