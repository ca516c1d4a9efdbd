import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { firstByte } from '../../../../../src/network/proxy/interception/connections.ts';
import { IDLE_TIMEOUT_MS } from '../../../../../src/network/proxy/limits.ts';

/** A connection that is silent until something is pushed. */
function silent(): Socket {
  return new Duplex({ read: () => {}, write: (_data, _encoding, done) => done() }) as Socket;
}

afterEach(() => void vi.useRealTimers());

describe('firstByte', () => {
  test("returns the client's first byte and leaves it in the stream", async () => {
    const [client, upstream] = [silent(), silent()];
    const byte = firstByte(client, upstream);
    client.push(Buffer.from('GET'));
    expect(await byte).toBe(0x47);
    expect(String(client.read())).toBe('GET');
  });

  test.each([
    ['the other side speaks first', (_client: Socket, upstream: Socket) => upstream.push('hello')],
    ['the client ends', (client: Socket) => client.push(null)],
    ['the client goes', (client: Socket) => client.destroy()],
    ['the other side goes', (_client: Socket, upstream: Socket) => upstream.destroy()],
  ])('returns null when %s', async (_name, happen) => {
    const [client, upstream] = [silent(), silent()];
    const byte = firstByte(client, upstream);
    happen(client, upstream);
    expect(await byte).toBeNull();
  });

  test('closes both connections after the idle timeout', async () => {
    vi.useFakeTimers();
    const [client, upstream] = [silent(), silent()];
    const byte = firstByte(client, upstream);
    vi.advanceTimersByTime(IDLE_TIMEOUT_MS);
    expect(await byte).toBeNull();
    expect([client.destroyed, upstream.destroyed]).toEqual([true, true]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
