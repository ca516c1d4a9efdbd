import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { ConsoleBrowser } from '../support/console-browser.ts';
import { testForeignRequests } from '../support/foreign-requests.ts';

let server: RunningServer;
beforeAll(async () => {
  server = await runServer({ console: true, logLevel: 'error' });
});
afterAll(() => server.close());

/** Asks a server for a code, as the command does. */
async function codeOf(browser: ConsoleBrowser): Promise<string> {
  return String((await browser.post('code', {}, { origin: '' })).json.code);
}

describe('a server with --console', () => {
  testForeignRequests(async () => {
    const browser = await ConsoleBrowser.open(server.consoleLink()!);
    return { browser, newCode: () => codeOf(browser) };
  });

  test('with --allowed-host serves the console by that name, and to no other Origin', async () => {
    const named = await runServer({ console: true, logLevel: 'error', allowedHost: 'console.example' });
    onTestFinished(() => named.close());
    const { port } = new URL(named.url!);
    const browser = new ConsoleBrowser(`http://127.0.0.1:${port}`);
    const host = `console.example:${port}`;
    const own = { host, origin: `http://${host}` };
    const signedIn = await browser.post('sign-in', { code: await codeOf(browser) }, own);
    expect(signedIn.status).toBe(200);
    browser.cookie = signedIn.headers['set-cookie']![0]!.split(';')[0]!;
    browser.key = String(signedIn.json.key);
    const policy = String((await browser.get('', { host })).headers['content-security-policy']);
    expect(policy).toContain(`connect-src 'self' ws://${host} wss://${host};`);

    const ticket = async () => String((await browser.post('ticket', {}, own)).json.ticket);
    (await browser.connect(await ticket(), own)).terminate();
    for (const [status, headers] of [
      [403, { host, origin: browser.origin }],
      [403, { host, origin: 'http://console.example' }],
      [403, { host: `127.0.0.1:${port}`, origin: own.origin }],
      [421, { host: 'other.example', origin: 'http://other.example' }],
      [421, { host: 'console.example.evil.example', origin: own.origin }],
    ] as const) {
      expect((await browser.post('ticket', {}, headers)).status).toBe(status);
      await expect(browser.connect(await ticket(), headers)).rejects.toThrow(`${status}`);
    }
  });
});
