// Runs a command on an exec-server, prints its output as it arrives and exits with its code.
//
//   node examples/run.mjs ws://HOST:PORT COMMAND [ARGUMENT…]
import { ExecServerClient } from 'exec-server/client';

const [url, ...argv] = process.argv.slice(2);
if (url === undefined || argv.length === 0) {
  process.stderr.write('usage: node examples/run.mjs ws://HOST:PORT COMMAND [ARGUMENT…]\n');
  process.exit(2);
}

const client = await ExecServerClient.connect({ url });
const program = await client.backend.start({
  processId: `run-${Date.now()}`,
  argv,
  cwd: (await client.backend.defaultCwd()) ?? 'file:///',
  // The variables of the server.
  env: {},
  envPolicy: { inherit: 'all', ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] },
  tty: false,
});
process.on('SIGINT', () => program.signal('interrupt'));
for await (const event of program.events()) {
  if (event.type === 'output')
    (event.stream === 'stderr' ? process.stderr : process.stdout).write(event.bytes);
  if (event.type === 'lost') process.stderr.write(`[lost ${event.bytes ?? 'some'} bytes]\n`);
  if (event.type === 'failed') process.stderr.write(`${event.error.message}\n`);
}
await client.close();
process.exitCode = program.state.exitCode ?? 1;
