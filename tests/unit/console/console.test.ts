import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { CODE_TTL_MS, MAX_CODES } from '../../../src/console/limits.ts';
import { signInUrl } from '../../../src/console/paths.ts';
import { FailureDelay } from '../../../src/listener/failure-delay.ts';
import { createLogger } from '../../../src/observability/log.ts';
import { ConsoleBrowser, closeCode } from '../../support/console-browser.ts';
import { testForeignRequests } from '../../support/foreign-requests.ts';
import { start } from './console-fixture.ts';

/** The path of the page's script below /console/. */
async function assetOf(browser: ConsoleBrowser): Promise<string> {
  return /assets\/[^"]+/.exec((await browser.get('')).text)![0];
}

describe('the page', () => {
  test('is served with a policy that forbids inline scripts and styles, framing and other hosts', async () => {
    const { stranger, origin } = await start();
    const { status, headers, text } = await stranger.get('');
    const socket = origin.replace('http:', '');
    expect([status, text]).toEqual([200, expect.stringContaining('<title>Console</title>')]);
    expect(String(headers['content-security-policy']).split('; ')).toEqual([
      "default-src 'none'",
      "script-src 'self' 'wasm-unsafe-eval'",
      "style-src 'self'",
      "img-src 'self' data: blob:",
      "font-src 'self'",
      `connect-src 'self' ws:${socket} wss:${socket}`,
      "manifest-src 'self'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'none'",
    ]);
  });

  test.each(['', 'session', 'nothing'])(
    'forbids framing, sniffing and sharing: /console/%s',
    async (path) => {
      const { stranger } = await start();
      expect((await stranger.get(path)).headers).toMatchObject({
        'cache-control': 'no-store',
        'content-security-policy': expect.stringContaining("frame-ancestors 'none'"),
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'permissions-policy': expect.stringContaining('camera=()'),
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
      });
    },
  );

  test('has assets that browsers may keep, compressed where they accept it', async () => {
    const { stranger } = await start();
    const asset = await assetOf(stranger);
    const plain = await stranger.get(asset);
    const compressed = await stranger.get(asset, { 'accept-encoding': 'gzip' });
    expect(plain).toMatchObject({ status: 200, text: 'main();'.repeat(100) });
    expect(plain.headers).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'private, max-age=31536000, immutable',
    });
    expect(compressed.headers).toMatchObject({ 'content-encoding': 'gzip' });
    expect(Number(compressed.headers['content-length'])).toBeLessThan(200);
  });

  test("has other addresses for its assets in each run, so that a browser cannot have an earlier server's", async () => {
    const [first, second] = [await start(), await start()];
    const asset = await assetOf(first.stranger);
    expect((await first.stranger.get(asset)).status).toBe(200);
    expect(await assetOf(second.stranger)).not.toBe(asset);
    expect((await second.stranger.get(asset)).status).toBe(404);
    expect((await first.stranger.get('assets/console-1.js')).status).toBe(404);
    const [one, other] = ['a', 'b'].map((code) => new URL(signInUrl(first.origin, code)).search);
    expect(one).not.toBe(other);
  });

  test('logs one line for many wrong codes', async () => {
    const lines: string[] = [];
    const { origin } = await start({ log: createLogger('warn', (line) => lines.push(line)) });
    const attempts = Array.from({ length: 5 }, () => new ConsoleBrowser(origin).signIn('wrong'));
    expect((await Promise.all(attempts)).map(({ status }) => status)).toEqual([401, 401, 401, 401, 401]);
    expect(lines.filter((line) => line.includes('sign-in refused'))).toHaveLength(1);
  });

  test('finds the session among other cookies of the same name', async () => {
    const { signedIn } = await start();
    const browser = await signedIn();
    const [name] = browser.cookie!.split('=');
    browser.cookie = `${name}=planted; ${browser.cookie}; ${name}=another`;
    expect((await browser.get('session')).status).toBe(200);
  });

  test.each([
    'assets/../secret.txt',
    'assets/..%2fsecret.txt',
    'assets//console-1.js',
    'assets/',
    'secret.txt',
    'index.html',
    'assets/__proto__',
  ])('serves nothing but its files: %s', async (path) => {
    const { stranger } = await start();
    expect((await stranger.get(path)).status).toBe(404);
  });

  test('says whether a server serves it or the command console, which print links in different ways', async () => {
    const { stranger } = await start();
    const ofServer = await start({ authorize: async () => ({ revoked: false }) });
    expect((await stranger.get('')).text).toContain('data-served-by="command"');
    expect((await ofServer.stranger.get('')).text).toContain('data-served-by="server"');
  });

  test('redirects /console to /console/', async () => {
    const { origin } = await start();
    const answer = await fetch(`${origin}/console`, { redirect: 'manual' });
    expect([answer.status, answer.headers.get('location')]).toEqual([308, '/console/']);
  });

  test('says so when it was not built', async () => {
    const { stranger } = await start({ pageFolder: '/nonexistent' });
    expect(await stranger.get('')).toMatchObject({ status: 503, json: { error: 'failed' } });
  });
});

describe('signing in', () => {
  test('gives a cookie that scripts cannot read, and a key that other ports do not get', async () => {
    const { console, grant, stranger, origin } = await start();
    const { status, headers, json } = await stranger.signIn(console.issueCode(grant));
    const { port } = new URL(origin);
    expect(status).toBe(200);
    expect(Object.keys(json)).toEqual(['key']);
    expect(headers['set-cookie']).toEqual([
      expect.stringMatching(
        `^exec-server-console-${port}=[\\w-]{43}; Path=/console; HttpOnly; SameSite=Strict; Max-Age=43200$`,
      ),
    ]);
    expect((await stranger.get('session')).json).toMatchObject({
      version: '1.2.3',
      readOnly: false,
      scopes: { exec: true, files: 'write' },
      environments: [{ name: 'one', default: true }, { name: 'two' }],
    });
  });

  test('over TLS the cookie is for TLS only', async () => {
    const { console, grant, stranger, origin } = await start();
    const secure = origin.replace('http:', 'https:');
    const code = console.issueCode(grant);
    const { headers } = await stranger.post('sign-in', { code }, { origin: secure });
    expect(headers['set-cookie']).toEqual([
      expect.stringMatching(/^__Secure-exec-server-console-\d+=.*; Secure$/),
    ]);
  });

  test('works once with a code', async () => {
    const { console, grant, stranger } = await start();
    const code = console.issueCode(grant);
    expect((await stranger.signIn(code)).status).toBe(200);
    expect(await new ConsoleBrowser(stranger.origin).signIn(code)).toMatchObject({
      status: 401,
      json: { error: 'badCode' },
    });
  });

  test('works for a minute with a code', async () => {
    const { console, grant, stranger } = await start();
    expect(CODE_TTL_MS).toBe(60_000);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const [early, late] = [console.issueCode(grant), console.issueCode(grant)];
    vi.advanceTimersByTime(59_999);
    expect((await stranger.signIn(early)).status).toBe(200);
    vi.advanceTimersByTime(1);
    expect(await stranger.signIn(late)).toMatchObject({ status: 401, json: { error: 'badCode' } });
  });

  test('answers a wrong code after the delay for wrong tokens, and others without it', async () => {
    const { console, grant, stranger, origin } = await start();
    const failed = vi.spyOn(FailureDelay.prototype, 'failed').mockReturnValue(2 ** 31 - 1);
    onTestFinished(() => failed.mockRestore());
    let isAnswered = false;
    const wrong = new ConsoleBrowser(origin).signIn('wrong').then(
      () => {
        isAnswered = true;
      },
      // The server has ended.
      () => {},
    );
    await vi.waitFor(() => expect(failed).toHaveBeenCalledExactlyOnceWith('127.0.0.1'));
    expect((await stranger.signIn(console.issueCode(grant))).status).toBe(200);
    expect((await stranger.get('session')).status).toBe(200);
    expect([isAnswered, failed.mock.calls.length]).toEqual([false, 1]);
    failed.mockReturnValue(0);
    expect((await new ConsoleBrowser(origin).signIn('wrong')).status).toBe(401);
    void wrong;
  });

  test('a console that has ended answers 503, and does not report a sign-out', async () => {
    const { console, signedIn } = await start();
    const browser = await signedIn();
    console.close();
    expect(await browser.post('ticket')).toMatchObject({ status: 503, json: { error: 'offline' } });
  });

  test('ends the earlier session of the browser, and a wrong code does not', async () => {
    const { console, grant, signedIn } = await start();
    const browser = await signedIn();
    const earlier = { cookie: browser.cookie!, 'x-console-key': browser.key! };
    const code = closeCode(await browser.connect(await browser.ticket()));
    expect((await browser.signIn('wrong')).status).toBe(401);
    expect((await browser.get('session')).status).toBe(200);
    expect((await browser.signIn(console.issueCode(grant))).status).toBe(200);
    expect(await code).toBe(4403);
    expect((await browser.get('session', earlier)).json).toMatchObject({ error: 'kicked' });
    expect((await browser.get('session')).status).toBe(200);
  });

  test.each([[''], ['x'], [7], [null], [{}]])('is refused with the code %j', async (code) => {
    const { stranger } = await start();
    expect(await stranger.post('sign-in', { code })).toMatchObject({
      status: 401,
      json: { error: 'badCode' },
    });
  });

  test('is refused with a code that newer ones have replaced, and with one whose grant was withdrawn', async () => {
    const { console, grant, stranger } = await start();
    const old = console.issueCode(grant);
    for (let issued = 0; issued < MAX_CODES; issued++) console.issueCode(grant);
    expect((await stranger.signIn(old)).status).toBe(401);
    const withdrawn = console.issueCode({ revoked: true });
    expect((await stranger.signIn(withdrawn)).status).toBe(401);
  });

  test.each([
    [400, 'no JSON', '{', 'application/json'],
    [400, 'a list', '[]', 'application/json'],
    [413, 'too much', `{"code":"${'x'.repeat(5_000)}"}`, 'application/json'],
    [415, 'a form', 'code=x', 'application/x-www-form-urlencoded'],
    [415, 'text', '{}', 'text/plain'],
    [415, 'no type', '{}', ''],
  ])('answers %i to a body that is %s', async (status, _, body, type) => {
    const { stranger, origin } = await start();
    const answer = await stranger.send('POST', 'sign-in', body, { origin, 'content-type': type });
    expect(answer.status).toBe(status);
  });
});

describe('requests of others', () => {
  testForeignRequests(async () => {
    const { console, grant, signedIn } = await start();
    return { browser: await signedIn(), newCode: () => console.issueCode(grant) };
  });

  test('the cookie alone is not enough', async () => {
    const { signedIn } = await start();
    const browser = await signedIn();
    const other = await signedIn();
    for (const key of ['', 'x', other.key!]) {
      const headers = { 'x-console-key': key };
      expect(await browser.get('session', headers)).toMatchObject({
        status: 401,
        json: { error: 'signedOut' },
      });
      expect((await browser.post('ticket', {}, headers)).status).toBe(401);
      expect((await browser.post('sign-out', {}, headers)).status).toBe(401);
    }
    expect((await browser.get('session')).status).toBe(200);
  });

  test('codes are not given to web clients, and not at all where the console has no tokens', async () => {
    const { stranger } = await start();
    expect((await stranger.post('code', {}, { origin: '' })).status).toBe(404);
    const given = await start({ authorize: async () => ({ revoked: false }) });
    expect((await given.stranger.post('code')).status).toBe(403);
    expect((await given.stranger.get('code')).status).toBe(405);
    const { json } = await given.stranger.post('code', {}, { origin: '' });
    expect((await given.stranger.signIn(json.code as string)).status).toBe(200);
  });

  test.each([
    ['PUT', 'sign-in'],
    ['GET', 'sign-in'],
    ['GET', 'ticket'],
    ['GET', 'sign-out'],
    ['POST', 'session'],
    ['OPTIONS', 'ticket'],
    ['DELETE', ''],
  ])('%s /console/%s is refused', async (method, path) => {
    const { signedIn, origin } = await start();
    expect((await (await signedIn()).send(method, path, undefined, { origin })).status).toBe(405);
  });
});
