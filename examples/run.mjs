// Runs a command on an exec-server, prints its output as it arrives and exits with its code.
//
//   node examples/run.mjs ws://HOST:PORT COMMAND [ARGUMENT…]
import { connect } from 'exec-server';

const [url, ...argv] = process.argv.slice(2);
if (url === undefined || argv.length === 0) {
  process.stderr.write('usage: node examples/run.mjs ws://HOST:PORT COMMAND [ARGUMENT…]\n');
  process.exit(2);
}

const client = await connect(url);
const program = await client.spawn(argv, {
  onStdout: (text) => void process.stdout.write(text),
  onStderr: (text) => void process.stderr.write(text),
});
process.on('SIGINT', () => program.signal('interrupt'));
process.exitCode = (await program.wait()).exitCode ?? 1;
