import { expect, test } from 'vitest';
import { PortForward } from '../../../../src/client/tcp/port-forward.ts';
import { waitFor } from '../../../support/wait-for.ts';

test('a port that no longer forwards does not listen to its client any more', async () => {
  const listeners = new Set<unknown>();
  const client = {
    state: 'connected' as const,
    connectTcp: () => Promise.reject(new Error('no stream is opened here')),
    onStateChange(listener: unknown) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const [stopped, closed] = [
    await PortForward.open(client, { port: 1 }),
    await PortForward.open(client, { port: 1 }),
  ];
  expect(listeners.size).toBe(2);
  stopped.stop();
  await waitFor('the listener of the stopped one to go', () => listeners.size === 1);
  await closed.close();
  expect(listeners.size).toBe(0);
});
