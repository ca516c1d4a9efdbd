import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { LastingClient } from '../../../../src/cli/ports/lasting-client.ts';
import { MAX_WAITING_CONNECTIONS } from '../../../../src/cli/ports/limits.ts';
import { ExecServerClient } from '../../../../src/client/client.ts';
import { startServer } from '../../../../src/testing/index.ts';
import { echoPeer } from '../../../support/tcp-peers.ts';
import { waitFor } from '../../../support/wait-for.ts';

const NEVER = new AbortController().signal;

/** A client of a server in this process. `reach` decides on the URL of each attempt. */
async function open(reach: (attempt: number) => Promise<string>, giveUpAfterMs: number | null = null) {
  const retries: string[] = [];
  let attempt = 0;
  const client = await LastingClient.open(
    {
      connect: async (signal) => {
        const url = await reach(++attempt);
        return ExecServerClient.connect({ url, signal, recoveryWindowMs: 0, detachedSessionTtlMs: 0 });
      },
      giveUpAfterMs,
      onRetry: ({ message }) => retries.push(message),
    },
    NEVER,
  );
  onTestFinished(() => client.close());
  const states: string[] = [];
  client.onStateChange((state) => states.push(state));
  return { client, retries, states };
}

async function server() {
  const running = await startServer();
  onTestFinished(() => running.close());
  return running;
}

test('reaches another server after its own has ended, and retries until then', async () => {
  const [first, second, peer] = [await server(), await server(), await echoPeer()];
  const { client, retries, states } = await open(async (attempt) => {
    if (attempt === 2) throw new Error('not yet');
    return attempt === 1 ? first.url : second.url;
  });
  const stream = await client.connectTcp({ port: peer.port });
  const broken = once(stream.resume(), 'error');
  await first.close();
  await broken;
  const again = await client.connectTcp({ port: peer.port });
  again.write('x');
  expect(String((await once(again, 'data'))[0])).toBe('x');
  again.destroy();
  expect(states).toEqual(['recovering', 'connected']);
  expect(retries).toEqual(['not yet']);
});

test('the number of connections that wait for the server is limited', async () => {
  const first = await server();
  const { client } = await open((attempt) =>
    attempt === 1 ? Promise.resolve(first.url) : new Promise(() => {}),
  );
  await first.close();
  await waitFor('the loss', () => client.state === 'recovering');
  const stop = new AbortController();
  const waiting = Array.from({ length: MAX_WAITING_CONNECTIONS }, () =>
    client.connectTcp({ port: 1 }, { signal: stop.signal }).catch((error: Error) => error),
  );
  await expect(client.connectTcp({ port: 1 }, { signal: stop.signal })).rejects.toMatchObject({
    kind: 'overloaded',
  });
  stop.abort(new Error('enough'));
  expect(new Set((await Promise.all(waiting)).map(String))).toEqual(new Set(['Error: enough']));
});

test('gives up when it is asked to', async () => {
  const first = await server();
  const { client, states } = await open(async (attempt) => {
    if (attempt > 1) throw new Error('no route');
    return first.url;
  }, 0);
  await first.close();
  await expect(client.ended).rejects.toThrow('could not be restored in time: no route');
  expect(states).toEqual(['recovering', 'failed']);
  await expect(client.connectTcp({ port: 1 })).rejects.toMatchObject({ kind: 'disconnected' });
});
