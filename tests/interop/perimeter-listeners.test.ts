import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { ensureReference, startReference } from '../../scripts/reference.mjs';

const missing = await ensureReference().then(
  () => false,
  () => true,
);

// This server resists the same attack: see tests/e2e/perimeter-limits.test.ts.
test.skipIf(missing)('idle connections make the reference unreachable for other clients', async () => {
  const server = await startReference();
  const sockets = [];
  try {
    execFileSync('prlimit', ['--pid', String(server.pid), '--nofile=64:64']);
    const url = new URL(server.url!);
    for (let count = 0; count < 80; count++) {
      sockets.push(connect(Number(url.port), url.hostname).on('error', () => {}));
    }
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    const probe = fetch(`http://${url.host}/readyz`, { signal: AbortSignal.timeout(2_000) });
    await expect(probe).rejects.toThrow('timeout');
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.stop();
  }
});
