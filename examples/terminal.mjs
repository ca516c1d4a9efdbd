// Connects this terminal to a shell on an exec-server. The shell ends with `exit` or Ctrl-D.
//
//   node examples/terminal.mjs ws://HOST:PORT [SHELL]
import { connect } from 'exec-server/client';

const [url, shell = 'bash'] = process.argv.slice(2);
if (url === undefined) {
  process.stderr.write('usage: node examples/terminal.mjs ws://HOST:PORT [SHELL]\n');
  process.exit(2);
}
const { stdin, stdout } = process;

const client = await connect(url);
const terminal = await client.backend.start({
  processId: `terminal-${Date.now()}`,
  argv: [shell],
  cwd: (await client.backend.defaultCwd()) ?? 'file:///',
  env: { TERM: process.env.TERM ?? 'xterm-256color' },
  envPolicy: { inherit: 'all', ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] },
  tty: true,
  size: { rows: stdout.rows ?? 24, cols: stdout.columns ?? 80 },
});

if (stdin.isTTY) stdin.setRawMode(true);
stdin.on('data', (bytes) => terminal.write(bytes));
stdout.on('resize', () => terminal.resize(stdout.rows, stdout.columns));
for await (const event of terminal.events()) {
  if (event.type === 'output') stdout.write(event.bytes);
  if (event.type === 'failed') process.stderr.write(`${event.error.message}\n`);
}
if (stdin.isTTY) stdin.setRawMode(false);
stdin.destroy();
await client.close();
process.exitCode = terminal.state.exitCode ?? 1;
