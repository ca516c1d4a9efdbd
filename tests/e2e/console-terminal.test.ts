import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connect, type ExecServerClient } from '../../src/client/index.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { hasChromium, TestBrowser } from '../support/chromium.ts';
import {
  allText,
  clickText,
  consoleLink,
  goTo,
  hasRole,
  isOnline,
  openConsole,
  screenOf,
  seesText,
  typeKeys,
} from '../support/console-page.ts';

const folder = mkdtempSync(join(tmpdir(), 'console-terminal-'));
let server: RunningServer;
let client: ExecServerClient;
let browser: TestBrowser;
/** A web server on another port, whose pages have a frame with the address in their query. */
const other = createServer(({ url }, answer) => {
  const address = new URL(url!, 'http://other').searchParams.get('frame');
  answer.writeHead(200, { 'content-type': 'text/html' });
  answer.end(address === null ? '<p>opened' : `<iframe src="${address}"></iframe>`);
});
let otherOrigin: string;
/** The hosts of further servers. */
const hosts: string[] = [];

beforeAll(async () => {
  if (!hasChromium) return;
  await once(other.listen(0, '127.0.0.1'), 'listening');
  otherOrigin = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  hosts.push(new URL(otherOrigin).host);
  server = await runServer({ console: true, logLevel: 'error' });
  client = await connect(server.url!);
  browser = await TestBrowser.launch();
});
afterAll(async () => {
  await browser?.close();
  await client?.close();
  await server?.close();
  other.close();
  rmSync(folder, { recursive: true });
});
afterEach(() => {
  browser?.proxy.restore();
});

/** Polls until the assertion holds. */
const eventually = <T>(probe: () => T) => expect.poll(probe);

/** Starts a program on a terminal that no client drives. Returns its reference. */
const terminal = (...argv: string[]) => terminalOn(server, ...argv);

async function terminalOn({ url }: RunningServer, ...argv: string[]): Promise<string> {
  const starter = await connect({ url: url!, detachedSessionTtlMs: 0 });
  const { ref } = await starter.spawn(argv, { tty: true, detached: true, cwd: folder });
  await starter.close();
  return ref!;
}

describe.skipIf(!hasChromium)('a terminal in the console', () => {
  test('is watched from a second browser, taken over, typed into and resized', async () => {
    const ref = await terminal('bash', '--norc');
    const first = await openConsole(browser, server, { hash: `processes/${ref}` });
    await hasRole(first, 'driver');
    await typeKeys(first, 'echo from-$((40+2))\n');
    await seesText(first, 'from-42');

    const second = await openConsole(browser, server, { hash: `processes/${ref}` });
    await hasRole(second, 'viewer');
    await seesText(second, 'from-42');
    await first.locator('.watchers', { hasText: '1' }).waitFor();
    await typeKeys(second, 'echo ignored-$((1+1))\n');
    await second.getByText('Watching: press Take over to type').waitFor();
    expect(await second.locator('.watchers').count()).toBe(0);

    await second.getByRole('button', { name: 'Take over' }).click();
    await hasRole(second, 'driver');
    await first.getByText('Another client has taken over').waitFor();
    await hasRole(first, 'viewer');
    // The terminal has got the focus.
    await second.keyboard.type('echo second-$((50+5))\n');
    await seesText(first, 'second-55');
    expect(await screenOf(first)).not.toContain('ignored-2');

    await second.setViewportSize({ width: 560, height: 500 });
    const columns = async () => (await client.processes.get(ref)).size!.cols;
    await eventually(columns).toBeLessThan(80);
    await typeKeys(second, 'tput cols > size\n');
    await eventually(() => readFileSync(join(folder, 'size'), 'utf8')).toBe(`${await columns()}\n`);
    await second.context().close();
    const free = first.getByRole('status').filter({ hasText: 'Nobody drives' });
    await free.getByRole('button', { name: 'Take over' }).click();
    await hasRole(first, 'driver');
    await first.getByRole('button', { name: 'Copy link' }).focus();
    await first.keyboard.press('Control+Shift+F');
    await first.getByLabel('Text to find').waitFor();
    await first.context().close();
  });

  test.each([360, 1200])(
    'shows all lines of a program that runs, in a window of %i pixels',
    async (width) => {
      const numbers = Array.from({ length: 45 }, (_, index) => index + 1).join(' ');
      const ref = await terminal('sh', '-c', `echo ${numbers} END; exec cat`);
      const page = await openConsole(browser, server);
      await page.setViewportSize({ width, height: 740 });
      await goTo(page, `processes/${ref}`);
      await hasRole(page, 'driver');
      await seesText(page, 'END');
      const columns = async () => (await client.processes.get(ref)).size!.cols;
      await eventually(columns).not.toBe(80);
      const shown = async () => (await screenOf(page)).replaceAll(/\s/g, '');
      await eventually(shown).toBe(`${numbers} END`.replaceAll(' ', ''));
      await page.context().close();
    },
  );

  test('shows the true screen of vim after the page is loaded again', async () => {
    const ref = await terminal('vim', '-u', 'NONE', '-N', 'notes.txt');
    const page = await openConsole(browser, server, { hash: `processes/${ref}` });
    await hasRole(page, 'driver');
    await seesText(page, '~');
    await typeKeys(page, 'ifirst line\nsecond-line');
    await seesText(page, 'second-line');
    const before = await screenOf(page);

    await page.reload();
    await hasRole(page, 'driver');
    await seesText(page, 'second-line');
    expect(await screenOf(page)).toBe(before);
    await typeKeys(page, ' goes-on\u001b:wq\n');
    await page.locator('.facts', { hasText: 'Exit 0' }).waitFor();
    expect(readFileSync(join(folder, 'notes.txt'), 'utf8')).toBe('first line\nsecond-line goes-on\n');
    await page.context().close();
  });

  test('goes on after a lost connection: no line is missing or repeated', async () => {
    const count = 'i=0; while [ ! -e stop ]; do i=$((i+1)); echo "n$i;"; sleep 0.01; done; echo "last=$i"';
    const ref = await terminal('sh', '-c', `echo ready; read -r line; ${count}; read -r line; echo back-99`);
    const page = await openConsole(browser, server, { hash: `processes/${ref}` });
    await hasRole(page, 'driver');
    await seesText(page, 'ready');
    await typeKeys(page, '\n');
    await seesText(page, /n\d+;/);

    browser.proxy.cut();
    await page.getByText('Programs keep running').waitFor();
    await page.locator('[data-connection=recovering]').waitFor();
    const printed = async () => (await client.processes.get(ref)).outputBytes!;
    const before = await printed();
    await eventually(printed).toBeGreaterThan(before + 500);
    browser.proxy.restore();
    await isOnline(page);
    await page.locator('.banner').waitFor({ state: 'detached' });
    writeFileSync(join(folder, 'stop'), '');
    await seesText(page, 'last=');
    const text = await allText(page);
    const numbers = Array.from(text.matchAll(/n(\d+);/g), ([, number]) => Number(number));
    const last = Number(/last=(\d+)/.exec(text)?.[1]);
    expect(numbers).toEqual(Array.from({ length: last }, (_, index) => index + 1));
    await typeKeys(page, '\n');
    await seesText(page, 'back-99');
    await page.context().close();
  });

  test('goes on after a line that died without a sign, with what was typed meanwhile', async () => {
    const ref = await terminal('sh', '-c', 'echo ready; read -r line; echo "got-$line"; exec cat');
    const page = await browser.open('about:blank');
    await page.clock.install();
    await page.goto(await consoleLink(server));
    await isOnline(page);
    await goTo(page, `processes/${ref}`);
    await hasRole(page, 'driver');
    await seesText(page, 'ready');
    browser.proxy.stall();
    await typeKeys(page, 'typed\n');
    await page.clock.runFor(30_000);
    await seesText(page, 'got-typed');
    await page.context().close();
  });

  test('has a gap line, the true screen and the driver again when its session was lost', async () => {
    const short = await runServer({ console: true, logLevel: 'error', detachedSessionTtlMs: 0 });
    onTestFinished(() => short.close());
    hosts.push(new URL(short.url!).host);
    const ref = await terminalOn(short, 'bash', '--norc');
    const page = await browser.open('about:blank');
    await page.clock.install();
    await page.goto(await consoleLink(short));
    await isOnline(page);
    await goTo(page, `processes/${ref}`);
    await hasRole(page, 'driver');
    await typeKeys(page, 'until [ -e away ]; do sleep 0.05; done; echo away-$((70+7)) | tee seen\n');
    await seesText(page, 'until');

    browser.proxy.cut();
    await page.locator('[data-connection=recovering]').waitFor();
    writeFileSync(join(folder, 'away'), '');
    await eventually(() => existsSync(join(folder, 'seen'))).toBe(true);
    // The client gives its session up.
    await page.clock.fastForward(30_000);
    const banner = page.locator('[data-banner=offline]');
    await banner.getByText('The server does not answer. This page tries again by itself.').waitFor();
    const down = { status: 502, json: { error: 'unreachable', message: 'it is down' } };
    await page.route('**/console/ticket', (route) => route.fulfill(down));
    await banner.getByRole('button', { name: 'Try now' }).click();
    await banner.getByText('The server cannot be reached. It is down.').waitFor();
    await page.unroute('**/console/ticket');
    browser.proxy.restore();
    await banner.getByRole('button', { name: 'Try now' }).click();
    await isOnline(page);
    await hasRole(page, 'driver');
    await seesText(page, 'away-77');
    const text = await allText(page);
    expect(text).toMatch(/until \[.*\n(.*\n)*.*connected again; output in between is not shown/);
    await typeKeys(page, 'echo typed-$((1+1))\n');
    await seesText(page, 'typed-2');
    await page.context().close();
  });

  test('is not shown in a frame of a page on another port, although the browser is signed in', async () => {
    const page = await openConsole(browser, server);
    const framing = await page.context().newPage();
    const asked: string[] = [];
    framing.on('request', (request) => asked.push(new URL(request.url()).pathname));
    const loaded = framing.waitForResponse(/\/console\/$/);
    await framing.goto(`${otherOrigin}/?frame=${new URL('/console/', page.url())}`);
    expect((await loaded).status()).toBe(200);
    const [, frame] = framing.frames();
    await eventually(() => frame!.url()).toBe('chrome-error://chromewebdata/');
    expect(await frame!.locator('.shell, .end').count()).toBe(0);
    expect(asked).toEqual(['/', '/console/']);
    await page.context().close();
  });

  test('is not harmed by sequences that repeat, cells without end, floods, pasted sequences and hidden links', async () => {
    const script = [
      'echo ready; read -r line',
      String.raw`for final in S T L M I Z b; do printf 'x\033[2147483647%s' $final; done; printf '\033[H\033[2J'`,
      String.raw`printf a; head -c 40000 /dev/zero | sed 's/\x00/\xcc\x81/g'; printf '\033[H\033[2J'`,
      // A terminal answers each of these questions.
      String.raw`stty raw -echo; printf '\033[c%.0s' $(seq 5000); head -c 35000 > answers; stty sane`,
      String.raw`printf '\033]4;1;#ff0000\007%.0s' $(seq 5000)`,
      String.raw`printf 'https://seen.example\033[8m.target.example\033[0m \033[?2004h'`,
      'stty raw -echo; head -c 26 > pasted; stty sane; echo stored',
      'read -r line',
    ].join('; ');
    const ref = await terminal('sh', '-c', script);
    const page = await openConsole(browser, server, { hash: `processes/${ref}` });
    await hasRole(page, 'driver');
    await seesText(page, 'ready');
    const styles = await page.evaluateHandle(() => {
      const count = { value: 0 };
      const replace = CSSStyleSheet.prototype.replaceSync;
      CSSStyleSheet.prototype.replaceSync = function (text) {
        count.value++;
        return replace.call(this, text);
      };
      return count;
    });
    await typeKeys(page, '\n');
    await seesText(page, 'https://seen.example');
    // Each one takes a millisecond.
    expect(await styles.evaluate(({ value }) => value)).toBeLessThan(500);

    const opened: string[] = [];
    page.context().on('page', (other) => opened.push(other.url()));
    await clickText(page, 'seen.example');
    await page.locator('.notice', { hasText: 'https://seen.example.target.example' }).waitFor();
    expect(opened).toEqual([]);
    await page.getByRole('button', { name: 'Cancel' }).click();

    await page.locator('.terminal-host textarea').evaluate((area) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData('text/plain', 'a\u001b[201~b\u009bc');
      area.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
    });
    await seesText(page, 'stored');
    const pasted = readFileSync(join(folder, 'pasted'), 'utf8');
    expect(pasted).toBe('\u001b[200~a\ufffd[201~b\ufffdc\u001b[201~');
    await page.context().close();
  });

  test('of a program that has ended has the size that the program drew for', async () => {
    const draw = String.raw`printf '\033[?1049h\033[H\033[2Jtop\033[40;1Hbottom'`;
    const size = { rows: 40, cols: 100 };
    const drawn = await client.spawn(['sh', '-c', draw], { tty: size, detached: true });
    await drawn.wait();
    const page = await openConsole(browser, server, { hash: `processes/${drawn.ref}` });
    const screen = `top${'\n'.repeat(39)}bottom`;
    await eventually(() => screenOf(page)).toBe(screen);
    // The tab gets the output before it is shown.
    await goTo(page, 'processes');
    await page.reload();
    await isOnline(page);
    await page.getByRole('row').filter({ hasText: drawn.ref! }).first().waitFor();
    await goTo(page, `processes/${drawn.ref}`);
    await eventually(() => screenOf(page)).toBe(screen);
    await page.context().close();
  });

  test('that is too large to show says so', async () => {
    const driver = await client.spawn(['cat'], { tty: true });
    await driver.resize(65_535, 65_535);
    const page = await openConsole(browser, server, { readOnly: true, hash: `processes/${driver.ref}` });
    await page.getByText('65,535 rows and 65,535 columns. That is too large to show.').waitFor();
    await driver.resize(20, 70);
    await page.getByText('too large to show').waitFor({ state: 'detached' });
    await driver.kill();
    await page.context().close();
  });

  test('keeps escape sequences away from the page', async () => {
    const script = [
      'echo ready; read -r line',
      String.raw`printf '\033]0;<img src=x onerror=alert(1)>\007'`,
      String.raw`printf '\033]8;;https://target.example/path\033\\innocent-text\033]8;;\033\\ '`,
      String.raw`printf '\033]8;;javascript:alert(1)\033\\script-text\033]8;;\033\\\n'`,
      String.raw`printf '\033]8;;%s\033\\other-text\033]8;;\033\\\n' ${otherOrigin}/opened`,
      String.raw`printf '\033]52;c;%s\007' "$(printf stolen | base64)"`,
      // The question for the clipboard gets no answer, the one for the cursor does.
      String.raw`stty -echo -icanon; printf '\033]52;c;?\007\033[6n'; IFS= read -r -d R reply; stty sane`,
      String.raw`printf %s "$reply" > reply; printf '<b id=injected>bold</b>\n'`,
      'read -r line',
    ].join('; ');
    const ref = await terminal('bash', '-c', script);
    const page = await openConsole(browser, server, { hash: `processes/${ref}` });
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await hasRole(page, 'driver');
    await seesText(page, 'ready');
    await typeKeys(page, '\n');
    await seesText(page, 'bold');
    expect(readFileSync(join(folder, 'reply'), 'utf8')).toMatch(/^\x1b\[\d+;\d+$/);
    const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
    const opened: string[] = [];
    page.context().on('page', (other) => opened.push(other.url()));

    // The title is text.
    expect(await page.locator('.terminal-title').textContent()).toBe('<img src=x onerror=alert(1)>');
    expect(await page.locator('#injected, .terminal-title img').count()).toBe(0);
    // A write to the clipboard waits for a click.
    await page.getByText('wants to copy 6 characters').waitFor();
    expect(await clipboard()).not.toBe('stolen');
    await page.getByRole('button', { name: 'Copy', exact: true }).click();
    await eventually(clipboard).toBe('stolen');
    // A link shows where it leads, before it is opened.
    await clickText(page, 'innocent-text');
    await page.getByText('https://target.example/path').first().waitFor();
    expect(opened).toEqual([]);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await clickText(page, 'script-text');
    expect(await page.getByText('This link leads to').count()).toBe(0);
    expect(opened).toEqual([]);
    await clickText(page, 'other-text');
    const opening = page.context().waitForEvent('page');
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    const target = await opening;
    await target.getByText('opened').waitFor();
    expect(await target.evaluate(() => [location.pathname, opener, document.referrer])).toEqual([
      '/opened',
      null,
      '',
    ]);
    // Output from before a reload asks for nothing, also when the program has ended.
    await page.reload();
    await seesText(page, 'script-text');
    expect(await page.getByText('wants to copy').count()).toBe(0);
    await typeKeys(page, '\n');
    await page.locator('.terminal-frame[data-phase=ended]').waitFor();
    await page.reload();
    await seesText(page, 'bold');
    expect(await page.getByText('wants to copy').count()).toBe(0);
    await page.context().close();
  });

  test('is searched, also in the output before the page was loaded again', async () => {
    const ref = await terminal('sh', '-c', 'seq 1 400000; echo needle-at-the-end; read -r line');
    const page = await openConsole(browser, server, { hash: `processes/${ref}` });
    await seesText(page, 'needle-at-the-end');
    await page.reload();
    await seesText(page, 'needle-at-the-end');
    await typeKeys(page, '');
    await page.keyboard.press('Control+Shift+F');
    // Lines on the screen and before it. Each of them is there once.
    await page.getByLabel('Text to find').fill('3999');
    await page.getByText('of 100').waitFor();
    await page.keyboard.press('Escape');
    await page.context().close();
  });

  test('does not hold a program up while the page is hidden, and shows the true screen afterwards', async () => {
    const ref = await terminal('sh', '-c', 'read -r line; seq 1 400000; echo done-here > done; read -r line');
    const page = await openConsole(browser, server, { hash: `processes/${ref}` });
    await hasRole(page, 'driver');
    const setHidden = (isHidden: boolean) =>
      page.evaluate((value) => {
        Object.defineProperty(document, 'hidden', { get: () => value, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
      }, isHidden);
    await setHidden(true);
    await typeKeys(page, '\n');
    await eventually(() => existsSync(join(folder, 'done'))).toBe(true);
    expect(await screenOf(page)).not.toContain('400000');
    await setHidden(false);
    await seesText(page, '400000');
    const lines = (await screenOf(page)).split('\n');
    expect(lines.slice(-3)).toEqual(['399998', '399999', '400000']);
    await page.context().close();
  });

  test('has keys that phones lack', async () => {
    const ref = await terminal('bash', '--norc');
    const page = await openConsole(browser, server);
    await page.setViewportSize({ width: 360, height: 740 });
    await goTo(page, `processes/${ref}`);
    await hasRole(page, 'driver');
    await typeKeys(page, 'cat\n');
    await page.getByRole('button', { name: 'Ctrl for the next key' }).click();
    await typeKeys(page, 'c');
    // The shell drops keys that it has read when it handles the interrupt.
    await seesText(page, /\^C.*bash-/s);
    await page.getByRole('button', { name: 'Up', exact: true }).click();
    await seesText(page, /cat(.|\n)*cat/);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    // Arrows follow the cursor mode of the program.
    await page.getByRole('button', { name: 'Ctrl C' }).click();
    await seesText(page, /(?:\^C.*bash-.*){2}/s);
    await typeKeys(
      page,
      "stty raw -echo; printf '\\e[?1htak%s' ing; head -c 6 > keys; stty sane; echo sto''red\n",
    );
    await seesText(page, 'taking');
    for (const name of ['Esc', 'Tab', 'Ctrl C', 'Left']) {
      await page.getByRole('button', { name, exact: true }).click();
    }
    await eventually(() => readFileSync(join(folder, 'keys'), 'utf8')).toBe('\u001b\t\u0003\u001bOD');
    await seesText(page, 'stored');
    await page.context().close();
  });

  test('no page has reported a defect or asked another host', () => {
    expect(browser.defects).toEqual([]);
    expect([...browser.hosts].sort()).toEqual([new URL(server.url!).host, ...hosts].sort());
  });
});
