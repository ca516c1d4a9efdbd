// Runs the bin argv[2] up to its first response and lets it write the code cache of what has run.
const [, , bin] = process.argv;
process.argv.splice(1, Number.POSITIVE_INFINITY, bin, '--listen', 'ws://127.0.0.1:0');
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = (text, ...rest) => {
  if (String(text).startsWith('ws://')) void warmUp(String(text).trim());
  return write(text, ...rest);
};
const { writeBuildCache } = require(bin);

async function warmUp(url) {
  const { WebSocket } = await import('ws');
  const socket = new WebSocket(url);
  socket.on('open', () => socket.send('{"id":1,"method":"initialize","params":{"clientName":"build"}}'));
  socket.on('message', () => {
    writeBuildCache().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}
