import { expect, test } from 'vitest';
import type { ConsoleBrowser } from './console-browser.ts';

/** A console, and a browser that is signed in to it. */
interface SignedInConsole {
  readonly browser: ConsoleBrowser;
  /** Creates a code that signs a browser in. */
  newCode(): string | Promise<string>;
}

/** Requests of other web pages. Every listener that serves the console must refuse them. */
export function testForeignRequests(open: () => Promise<SignedInConsole>): void {
  test.each(['http://evil.example', 'null', 'http://127.0.0.1:1', 'http://localhost', ''])(
    'POST requests with the Origin %j are refused and change nothing',
    async (origin) => {
      const { browser, newCode } = await open();
      const code = await newCode();
      for (const [path, body] of [
        ['sign-in', { code }],
        ['ticket', {}],
        ['sign-out', {}],
      ] as const) {
        expect(await browser.post(path, body, { origin })).toMatchObject({
          status: 403,
          json: { error: 'forbidden' },
        });
      }
      expect((await browser.get('session')).status).toBe(200);
      expect((await browser.signIn(code)).status).toBe(200);
    },
  );

  test.each(['', 'session', 'machine', 'assets/console-1.js'])(
    'GET /console/%s with a foreign Origin is refused, and no answer allows one',
    async (path) => {
      const { browser } = await open();
      const { status, headers } = await browser.get(path, { origin: 'http://evil.example' });
      expect(status).toBe(403);
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    },
  );

  test.each(['http://evil.example', 'null', 'http://127.0.0.1:1'])(
    'a websocket with the Origin %j is refused, and its ticket stays valid',
    async (origin) => {
      const { browser } = await open();
      const ticket = await browser.ticket();
      await expect(browser.connect(ticket, { origin })).rejects.toThrow('403');
      (await browser.connect(ticket)).terminate();
    },
  );

  test.each(['evil.example', 'evil.example:80', '127.0.0.1.evil.example', 'localhost.evil.example'])(
    'the Host %j is refused (DNS rebinding)',
    async (host) => {
      const { browser } = await open();
      expect((await browser.get('session', { host })).status).toBe(421);
      const origin = `http://${host}`;
      expect((await browser.post('ticket', {}, { host, origin })).status).toBe(421);
      const ticket = await browser.ticket();
      await expect(browser.connect(ticket, { host, origin })).rejects.toThrow('421');
      (await browser.connect(ticket)).terminate();
    },
  );

  test('a browser behind an ssh tunnel has another port', async () => {
    const { browser, newCode } = await open();
    const headers = { host: 'localhost:9999', origin: 'http://localhost:9999' };
    expect((await browser.post('sign-in', { code: await newCode() }, headers)).status).toBe(200);
  });
}
