import { describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  MAX_SESSIONS,
  MAX_SOCKETS_PER_SESSION,
  MAX_TICKETS_PER_SESSION,
  SESSION_IDLE_MS,
  SESSION_MAX_MS,
  TICKET_TTL_MS,
} from '../../../src/console/limits.ts';
import { closeCode } from '../../support/console-browser.ts';
import { echo, start } from './console-fixture.ts';

describe('websockets', () => {
  test('need a ticket, which can be used once', async () => {
    const { signedIn } = await start();
    const browser = await signedIn();
    const ticket = await browser.ticket();
    const socket = await browser.connect(ticket);
    expect(socket.protocol).toBe('exec-server');
    const answer = new Promise((resolve) => socket.once('message', (data) => resolve(String(data))));
    socket.send('{"hello":1}');
    expect(await answer).toBe('{"hello":1}');
    await expect(browser.connect(ticket)).rejects.toThrow('401');
    await expect(browser.connect('wrong')).rejects.toThrow('401');
  });

  test('need the cookie of the session that asked for the ticket', async () => {
    const { signedIn, closedLinks } = await start();
    const [browser, other] = [await signedIn(), await signedIn()];
    await expect(other.connect(await browser.ticket())).rejects.toThrow('401');
    await expect(browser.connect(await browser.ticket(), { cookie: 'x=y' })).rejects.toThrow('401');
    expect(closedLinks).toEqual(['one', 'one']);
  });

  test('need a ticket of the last 30 seconds', async () => {
    const { signedIn, closedLinks } = await start();
    const browser = await signedIn();
    expect(TICKET_TTL_MS).toBe(30_000);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const [early, late] = [await browser.ticket(), await browser.ticket()];
    vi.advanceTimersByTime(29_999);
    await browser.connect(early);
    expect(closedLinks).toEqual([]);
    vi.advanceTimersByTime(1);
    await expect(browser.connect(late)).rejects.toThrow('401');
    expect(closedLinks).toEqual(['one']);
  });

  test('lead to the environment that the ticket names', async () => {
    const asked: string[] = [];
    const { signedIn } = await start({
      connect: async (_, name) => {
        asked.push(name);
        if (name === 'two') throw new Error('two is down');
        return { serve: echo, close: () => {} };
      },
    });
    const browser = await signedIn();
    await browser.ticket();
    expect(await browser.post('ticket', { environment: 'two' })).toMatchObject({
      status: 502,
      json: { error: 'unreachable', message: 'two is down' },
    });
    expect((await browser.post('ticket', { environment: 'three' })).status).toBe(404);
    expect(asked).toEqual(['one', 'two']);
  });

  test('that were not opened are limited, and close their connections when the session ends', async () => {
    const { signedIn, closedLinks } = await start();
    const browser = await signedIn();
    for (let tickets = 0; tickets < MAX_TICKETS_PER_SESSION; tickets++) await browser.ticket();
    expect(await browser.post('ticket')).toMatchObject({ status: 503, json: { error: 'busy' } });
    await browser.post('sign-out');
    expect(closedLinks).toHaveLength(MAX_TICKETS_PER_SESSION);
  });
});

test('a browser has a limited number of websockets', async () => {
  const { signedIn } = await start();
  const browser = await signedIn();
  for (let open = 0; open < MAX_SOCKETS_PER_SESSION; open++) await browser.connect(await browser.ticket());
  expect(await browser.post('ticket')).toMatchObject({ status: 503, json: { error: 'busy' } });
});

test('an invalid websocket request uses the ticket up and closes its connection', async () => {
  const { signedIn, closedLinks, origin } = await start();
  const browser = await signedIn();
  const ticket = await browser.ticket();
  const headers = {
    origin,
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'too short',
    'sec-websocket-protocol': `exec-server, ticket.${ticket}`,
  };
  expect((await browser.get('connect', headers)).status).toBe(400);
  await vi.waitFor(() => expect(closedLinks).toEqual(['one']));
  await expect(browser.connect(ticket)).rejects.toThrow('401');
});

describe('a session ends', () => {
  test('by signing out, with its websockets, and its cookie is removed', async () => {
    const { signedIn } = await start();
    const browser = await signedIn();
    const socket = await browser.connect(await browser.ticket());
    const code = closeCode(socket);
    const { status, headers } = await browser.post('sign-out');
    expect(status).toBe(204);
    expect(headers['set-cookie']).toEqual([expect.stringContaining('=; Path=/console;')]);
    expect(await code).toBe(4401);
    expect(await browser.get('session')).toMatchObject({ status: 401, json: { error: 'signedOut' } });
  });

  test('after a time without use, which an open websocket is', async () => {
    const { signedIn, clock } = await start();
    const browser = await signedIn();
    const socket = await browser.connect(await browser.ticket());
    clock.nowMs += SESSION_IDLE_MS;
    expect((await browser.get('session')).status).toBe(200);
    const closed = closeCode(socket);
    socket.close();
    await closed;
    clock.nowMs += SESSION_IDLE_MS - 1;
    expect((await browser.get('session')).status).toBe(200);
    clock.nowMs += SESSION_IDLE_MS;
    expect(await browser.get('session')).toMatchObject({ status: 401, json: { error: 'expired' } });
    expect((await browser.post('ticket')).status).toBe(401);
  });

  test('after its longest time, with its websockets', async () => {
    const { signedIn, clock } = await start();
    const browser = await signedIn();
    const code = closeCode(await browser.connect(await browser.ticket()));
    clock.nowMs += SESSION_MAX_MS;
    expect(await browser.get('session')).toMatchObject({ status: 401, json: { error: 'expired' } });
    expect(await code).toBe(4402);
  });

  test('when its token expires', async () => {
    const clock = { expiresAtMs: Date.now() + 60_000 };
    const { signedIn, clock: times } = await start({ expiryOf: () => clock.expiresAtMs });
    const browser = await signedIn();
    expect((await browser.get('session')).json.expiresAtMs).toBe(clock.expiresAtMs);
    times.nowMs = clock.expiresAtMs;
    expect((await browser.get('session')).json.error).toBe('expired');
  });

  test('when its grant is withdrawn', async () => {
    const { signedIn, grant } = await start();
    const browser = await signedIn();
    const code = closeCode(await browser.connect(await browser.ticket()));
    grant.revoked = true;
    expect(await browser.get('session')).toMatchObject({ status: 401, json: { error: 'kicked' } });
    expect(await code).toBe(4403);
  });

  test('when too many others sign in: the one that was used longest ago', async () => {
    const { signedIn, clock } = await start();
    const watching = await signedIn();
    await watching.connect(await watching.ticket());
    const idle = await signedIn();
    for (let others = 2; others < MAX_SESSIONS; others++) {
      clock.nowMs++;
      await signedIn();
    }
    expect((await watching.get('session')).status).toBe(200);
    await signedIn();
    expect(await idle.get('session')).toMatchObject({ status: 401, json: { error: 'kicked' } });
    expect((await watching.get('session')).status).toBe(200);
  });

  test('when its owner has most of too many, also with open pages', async () => {
    const { signedIn, grant } = await start();
    const idle = await signedIn();
    const bob = { ...grant, owner: 'bob' };
    const first = await signedIn(bob);
    for (let others = 2; others <= MAX_SESSIONS; others++) {
      const browser = await signedIn(bob);
      await browser.connect(await browser.ticket());
    }
    expect((await idle.get('session')).status).toBe(200);
    expect(await first.get('session')).toMatchObject({ status: 401, json: { error: 'kicked' } });
  });
});

test('facts about the machine need a session, and exist for known environments', async () => {
  const { signedIn, stranger } = await start();
  const browser = await signedIn();
  expect((await stranger.get('machine')).status).toBe(401);
  expect((await browser.get('machine')).json).toEqual({ hostname: 'here' });
  expect(await browser.get('machine?environment=two')).toMatchObject({
    status: 404,
    json: { error: 'notFound', message: expect.stringContaining('serves this console') },
  });
  expect((await browser.get('machine?environment=three')).status).toBe(404);
});
