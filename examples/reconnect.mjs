// Cuts the connection three times while a program prints, and checks that every line arrives once and in order.
//
//   node examples/reconnect.mjs
import { connect, outputTextOf } from 'exec-server/client';
import { startServer, TcpProxy } from 'exec-server/testing';

const LINES = 20_000;
const server = await startServer();
const proxy = await TcpProxy.open(server.url);
const client = await connect(proxy.url);
const stopListening = client.onStateChange((state) => process.stdout.write(`connection: ${state}\n`));

const program = await client.backend.start({
  processId: 'count',
  argv: [
    'sh',
    '-c',
    `for i in 1 2 3 4; do seq $((i * ${LINES / 4} - ${LINES / 4} + 1)) $((i * ${LINES / 4})); sleep 0.3; done`,
  ],
  cwd: 'file:///',
  env: { PATH: '/usr/bin:/bin' },
  tty: false,
});
const cuts = [200, 500, 800].map((ms) => setTimeout(() => proxy.drop(), ms));

let text = '';
for await (const piece of outputTextOf(program)) text += piece.text;
const expected = Array.from({ length: LINES }, (_, index) => `${index + 1}\n`).join('');
process.stdout.write(
  text === expected ? `all ${LINES} lines arrived, once and in order\n` : 'lines are missing\n',
);

for (const cut of cuts) clearTimeout(cut);
stopListening();
await client.close();
await proxy.close();
await server.close();
