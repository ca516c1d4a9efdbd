import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { connect, type ExecServerClient } from '../../src/client/index.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { hasChromium, TestBrowser } from '../support/chromium.ts';
import {
  clickText,
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

beforeAll(async () => {
  if (!hasChromium) return;
  server = await runServer({ console: true, logLevel: 'error' });
  client = await connect(server.url!);
  browser = await TestBrowser.launch();
});
afterAll(async () => {
  await browser?.close();
  await client?.close();
  await server?.close();
  rmSync(folder, { recursive: true });
});
afterEach(() => {
  browser?.proxy.restore();
});

/** Polls until the assertion holds. */
const eventually = <T>(probe: () => T) => expect.poll(probe, { timeout: 15_000 });

/** Starts a program on a terminal that no client drives. Returns its reference. */
async function terminal(...argv: string[]): Promise<string> {
  const starter = await connect({ url: server.url!, detachedSessionTtlMs: 0 });
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

  test('goes on after a lost connection, and says meanwhile that programs keep running', async () => {
    const ref = await terminal('bash', '--norc');
    const page = await openConsole(browser, server, { hash: `processes/${ref}` });
    await hasRole(page, 'driver');
    await seesText(page, /bash.*[#$]/);
    await typeKeys(page, 'read -r; echo back-$((90+9))\n');
    await seesText(page, 'read');

    browser.proxy.cut();
    await page.getByText('Programs keep running').waitFor();
    await page.locator('[data-connection=recovering]').waitFor();
    browser.proxy.restore();
    await isOnline(page);
    await page.locator('.banner').waitFor({ state: 'detached' });
    await typeKeys(page, '\n');
    await seesText(page, 'back-99');
    await page.context().close();
  });

  test('is not harmed by sequences that repeat, cells without end, pasted sequences and hidden links', async () => {
    const script = [
      'echo ready; read -r line',
      String.raw`for final in S T L M I Z b; do printf 'x\033[2147483647%s' $final; done; printf '\033[H\033[2J'`,
      String.raw`printf a; head -c 40000 /dev/zero | sed 's/\x00/\xcc\x81/g'; printf '\033[H\033[2J'`,
      String.raw`printf 'https://seen.example\033[8m.target.example\033[0m \033[?2004h'`,
      'stty raw -echo; head -c 26 > pasted; stty sane; echo stored',
      'read -r line',
    ].join('; ');
    const ref = await terminal('sh', '-c', script);
    const page = await openConsole(browser, server, { hash: `processes/${ref}` });
    await hasRole(page, 'driver');
    await seesText(page, 'ready');
    await typeKeys(page, '\n');
    await seesText(page, 'https://seen.example');

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
      String.raw`printf '\033]52;c;%s\007' "$(printf stolen | base64)"`,
      String.raw`printf '\033]52;c;?\007<b id=injected>bold</b>\n'`,
      'read -r line',
    ].join('; ');
    const ref = await terminal('sh', '-c', script);
    const page = await openConsole(browser, server, { hash: `processes/${ref}` });
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await hasRole(page, 'driver');
    await seesText(page, 'ready');
    await typeKeys(page, '\n');
    await seesText(page, 'script-text');
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
    // Output from before a reload asks for nothing.
    await page.reload();
    await seesText(page, 'script-text');
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
    await seesText(page, /\^C/);
    await page.getByRole('button', { name: 'Up', exact: true }).click();
    await seesText(page, /cat(.|\n)*cat/);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    await page.context().close();
  });

  test('no page has reported a defect or asked another host', () => {
    expect(browser.defects).toEqual([]);
    expect([...browser.hosts]).toEqual([new URL(server.url!).host]);
  });
});
