import { expect, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { startServer, TcpProxy } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';

test('smoke', async () => {
  const server = await startServer();
  const proxy = await TcpProxy.open(server.url);
  const client = await ExecServerClient.connect({ url: proxy.url });
  const process = await client.backend.start({ ...shell('p', 'cat; echo bye; exit 3'), pipeStdin: true });
  const seen: unknown[] = [];
  const done = (async () => {
    for await (const event of process.events()) seen.push(event.type === 'output' ? Buffer.from(event.bytes).toString() : event);
  })();
  expect(await process.write('one\n')).toBe('accepted');
  proxy.drop();
  expect(await process.write('two\n')).toBe('accepted');
  proxy.drop();
  expect(await process.closeStdin()).toBe(true);
  proxy.drop();
  await done;
  console.log(seen, client.state);
  await client.close();
  await proxy.close();
  await server.close();
});
