import { expect, test } from 'vitest';
import { SOCKET_WINDOW_BYTES } from '../../../../src/relay/service/limits.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { Environment, startTestRelay, token } from './relay-fixture.ts';

const FRAMES = 800;
const PAYLOAD = new Uint8Array(60_000);

async function queuedBytes(url: string): Promise<number> {
  const response = await fetch(`${url}/metrics`, {
    headers: { authorization: `Bearer ${token('metrics', null)}` },
  });
  return Number(/^exec_server_relay_waiting_bytes (\d+)$/m.exec(await response.text())?.[1]);
}

test.each(['executor', 'harness'] as const)(
  'keeps messages of the %s at the sender while the peer does not read, and delivers them later',
  async (senderRole) => {
    const { url } = await startTestRelay({ metrics: true });
    const environment = new Environment(url);
    const executor = await environment.executor();
    const harness = await environment.harness();
    harness.resume('s');
    await executor.hasReceived(1);
    const [sender, reader] = senderRole === 'executor' ? [executor, harness] : [harness, executor];
    const before = reader.received.length;
    reader.socket.setReceiving(false);
    for (let seq = 0; seq < FRAMES; seq++) sender.record('s', seq, PAYLOAD);

    let most = 0;
    await waitFor('the relay to stop reading', async () => {
      most = Math.max(most, await queuedBytes(url));
      return most >= SOCKET_WINDOW_BYTES;
    });
    // If the relay still read from the sender, the queue would grow during these requests.
    for (let count = 0; count < 20; count++) most = Math.max(most, await queuedBytes(url));
    expect(most).toBeLessThan(SOCKET_WINDOW_BYTES + 512 * 1024);
    expect(sender.socket.pendingBytes).toBeGreaterThan(SOCKET_WINDOW_BYTES);

    reader.socket.setReceiving(true);
    await reader.hasReceived(before + FRAMES);
    const numbers = reader.frames.slice(before).map(({ body }) => (body.kind === 'data' ? body.seq : null));
    expect(numbers).toEqual(Array.from({ length: FRAMES }, (_, seq) => seq));
    expect(await waitFor('an empty queue', async () => (await queuedBytes(url)) === 0)).toBe(true);
  },
);
