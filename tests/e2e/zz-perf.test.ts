import { test } from 'vitest';
import { ExecServerClient, run, outputOf } from '../../src/client/index.ts';
import { startServerProcess, TcpProxy } from '../../src/testing/index.ts';
import { startReference } from '../../scripts/reference.mjs';
test('perf', async () => {
  const server = await startServerProcess();
  const client = await ExecServerClient.connect({ url: server.url });
  for (const script of ['head -c 300000000 /dev/zero', 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i; done']) {
    const t = performance.now();
    const p = await client.backend.start({ processId: 'x' + t, argv: ['/bin/sh', '-c', script], cwd: 'file:///', env: { PATH: process.env.PATH! }, tty: false });
    let bytes = 0, lost = 0, pieces = 0;
    for await (const piece of outputOf(p, { onLost: () => lost++ })) { bytes += piece.bytes.length; pieces++; }
    console.log(script, bytes, 'pieces', pieces, 'lost', lost, Math.round(performance.now() - t), 'ms');
  }
  const t = performance.now();
  for (let i = 0; i < 200; i++) await run(client.backend, ['/bin/true']);
  console.log('run true', (performance.now() - t) / 200, 'ms');
  await client.close();
  await server.close();
});
