import { expect, test, vi } from 'vitest';
import type { HandlerServices } from '../../../../src/server/handlers/services.ts';
import { sharingHandlers } from '../../../../src/server/handlers/sharing-handlers.ts';
import { createSharing } from '../sessions/sharing-fixture.ts';

type Context = Parameters<ReturnType<typeof sharingHandlers>['process/screen']>[1];

test.each(['process/screen', 'process/attach'] as const)(
  '%s does not wait for the screen when the connection is closed, and does when the client has only ended its input',
  async (method) => {
    const { connect, run } = createSharing();
    const [owner, viewer] = [connect('owner'), connect('viewer')];
    const { process } = await run(owner);
    let asked: AbortSignal | undefined;
    vi.spyOn(process.process!, 'screen').mockImplementation((signal) => {
      asked = signal;
      return new Promise((_, reject) =>
        signal!.addEventListener('abort', () => reject(signal!.reason), { once: true }),
      );
    });
    const handlers = sharingHandlers({ processes: viewer.processes } as HandlerServices);
    const ended = AbortSignal.abort();
    const context = { park() {}, maxResultBytes: () => 1_000_000, signal: ended } as unknown as Context;
    const answer =
      method === 'process/screen'
        ? handlers[method]({ processId: process.ref }, context)
        : handlers[method]({ ref: process.ref, role: 'viewer', takeOver: false, screen: true }, context);
    await vi.waitFor(() => expect(asked?.aborted).toBe(false));
    viewer.disconnect();
    await expect(answer).rejects.toThrow('the connection has ended');
    expect(process.attachments).toBe(0);
  },
);
