import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect, type ExecServerClient, type SpawnOptions } from '../../src/client/index.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { hasChromium, TestBrowser } from '../support/chromium.ts';
import { goTo, hasRole, openConsole, seesText } from '../support/console-page.ts';

const folder = mkdtempSync(join(tmpdir(), 'console-views-'));
const recordDir = join(folder, 'recordings');
let server: RunningServer;
let client: ExecServerClient;
let browser: TestBrowser;
let page: Page;

beforeAll(async () => {
  if (!hasChromium) return;
  mkdirSync(recordDir, { mode: 0o700 });
  server = await runServer({ console: true, logLevel: 'error', recordDir });
  client = await connect(server.url!);
  browser = await TestBrowser.launch();
  page = await openConsole(browser, server);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
});
afterAll(async () => {
  await browser?.close();
  await client?.close();
  await server?.close();
  rmSync(folder, { recursive: true });
});

/** Polls until the assertion holds. */
const eventually = <T>(probe: () => T) => expect.poll(probe);
const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
const button = (name: string | RegExp) => page.getByRole('button', { name, exact: true });

/** Starts a program that no client drives. Returns its reference. */
async function started(argv: string[], options: SpawnOptions = {}): Promise<string> {
  const starter = await connect({ url: server.url!, detachedSessionTtlMs: 0 });
  const { ref } = await starter.spawn(argv, { detached: true, cwd: folder, ...options });
  await starter.close();
  return ref!;
}

describe.skipIf(!hasChromium)('the views of the console', () => {
  test('shows listening ports, ends a command after its time, sandboxes it, and says why it ended', async () => {
    const script =
      "const s = require('net').createServer().listen(0, '127.0.0.1', () => console.log('at', s.address().port))";
    const ref = await started([process.execPath, '-e', script]);
    const row = page.getByRole('row').filter({ hasText: ref });
    const chip = row.locator('.cell-ports .chip');
    const port = await chip.textContent();
    expect(port).toMatch(/^:\d+$/);
    await page.getByLabel('Filter processes').fill(port!);
    await eventually(() => page.getByRole('row').count()).toBe(1);
    await row.getByRole('link').click();
    await page.locator('.line', { hasText: `at ${port!.slice(1)}` }).waitFor();
    await page.locator('.facts .chip', { hasText: port! }).waitFor();
    await client.processes.terminate(ref, { type: 'force' });
    await goTo(page, 'processes');

    await page.getByLabel('Command to start').fill('echo text > denied || echo refused; sleep 60');
    await page.getByLabel('Options').click();
    await page.getByRole('textbox', { name: 'Directory' }).fill(folder);
    await page.getByLabel('Sandbox').selectOption('Reads only');
    await page.getByLabel('End after (minutes)').fill('x');
    await page.keyboard.press('Enter');
    await page.getByText('"x" is not a number of minutes').waitFor();
    await page.getByLabel('End after (minutes)').fill('0.05');
    await page.keyboard.press('Enter');
    await seesText(page, 'refused');
    const state = page.locator('.facts .state', { hasText: 'Stopped: timeout' });
    await state.waitFor();
    expect(await state.getAttribute('title')).toBe(
      'The server ended it because it ran longer than permitted.',
    );
    expect(existsSync(join(folder, 'denied'))).toBe(false);
    await goTo(page, 'processes');
    await page.getByRole('row').filter({ hasText: 'Stopped: timeout' }).waitFor();
  });

  test('sends a signal to a terminal, kills it, and copies a link to it', async () => {
    const ref = await started(
      ['bash', '-c', "trap 'echo got-usr1' USR1; echo ready; while :; do sleep 0.05; done"],
      { tty: true },
    );
    await goTo(page, `processes/${ref}`);
    await seesText(page, 'ready');
    await button('Copy link').click();
    await page.getByText('Link copied').waitFor();
    expect(await clipboard()).toBe(page.url());
    await button('End process').click();
    await page.getByLabel('Signal').selectOption('SIGUSR1');
    await button('Send').click();
    await page.getByText(`SIGUSR1 sent to ${ref}`).waitFor();
    await seesText(page, 'got-usr1');
    await button('End process').click();
    await button('Kill now').click();
    await page.locator('.facts .state', { hasText: 'SIGKILL' }).waitFor();
  });

  test('filters, follows, copies and drops the output of pipes, and closes stdin', async () => {
    const script = 'seq 1 25000; echo problem >&2; cat > /dev/null; echo at-the-end';
    const ref = await started(['sh', '-c', script], { pipeStdin: true });
    await goTo(page, `processes/${ref}`);
    await hasRole(page, 'driver');
    await page.locator('.line.stderr', { hasText: 'problem' }).waitFor();
    await page.getByText(/^[345],\d{3} earlier lines are not kept$/).waitFor();
    const log = page.getByRole('log');
    const filter = page.getByLabel('Filter lines');
    await filter.fill('24999');
    await eventually(() => log.locator('.line').count()).toBe(1);
    await button('Copy these lines').click();
    await page.getByText('1 lines copied').waitFor();
    expect(await clipboard()).toBe('24999');
    await filter.fill('');
    const last = log.locator('.line', { hasText: 'problem' });
    await last.waitFor();
    // A reader who scrolls up stays there until he asks for the latest output.
    await log.evaluate((element) => element.scrollTo(0, 0));
    const follow = page.getByRole('button', { name: 'Latest output' });
    await follow.waitFor();
    await last.waitFor({ state: 'detached' });
    await follow.click();
    await last.waitFor();
    await follow.waitFor({ state: 'detached' });
    // Output that arrives before the event of the page's own scrolling does not end the following.
    await log.evaluate(async (element) => {
      const arriving = document.createElement('div');
      arriving.style.height = '1000px';
      element.append(arriving);
      element.dispatchEvent(new Event('scroll'));
      arriving.remove();
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    });
    expect(await follow.count()).toBe(0);
    await button('Close stdin').click();
    await log.locator('.line', { hasText: 'at-the-end' }).waitFor();
    await page.locator('.facts', { hasText: 'Exit 0' }).waitFor();
  });

  test('says that a program without stdin did not get a line', async () => {
    const ref = await started(['sleep', '1000']);
    await goTo(page, `processes/${ref}`);
    await hasRole(page, 'driver');
    await page.getByLabel('A line for stdin').fill('a line');
    await page.keyboard.press('Enter');
    await page.getByText('The program did not get this line').waitFor();
    await client.processes.terminate(ref);
    await page.locator('.facts', { hasText: 'SIG' }).waitFor();
  });

  test('keeps at most 16 tabs, and closes them', async () => {
    const refs = await Promise.all(Array.from({ length: 17 }, () => started(['sleep', '1000'])));
    const tabs = page.getByRole('navigation', { name: 'Open processes' }).getByRole('listitem');
    for (const ref of refs) {
      await goTo(page, `processes/${ref}`);
      await page.locator('.facts', { hasText: ref }).waitFor();
    }
    const open = () =>
      tabs.locator('a').evaluateAll((all) => all.map((a) => a.getAttribute('href')!.slice(-8)));
    expect(await open()).toEqual(refs.slice(1));
    const close = (index: number) =>
      tabs
        .nth(index)
        .getByRole('button', { name: /^Close tab/ })
        .click();
    await close(0);
    expect(await open()).toEqual(refs.slice(2));
    // The neighbour of the present tab takes its place.
    await close(14);
    await eventually(() => page.url().slice(-8)).toBe(refs[15]);
    expect(await open()).toEqual(refs.slice(2, 16));
    await page.reload();
    await eventually(open).toEqual(refs.slice(2, 16));
    await goTo(page, 'processes');
    await Promise.all(refs.map((ref) => client.processes.terminate(ref, { type: 'force' })));
  });

  test('has a tree, a path, new folders and deleted files', async () => {
    const base = join(folder, 'base');
    mkdirSync(join(base, 'alpha'), { recursive: true });
    writeFileSync(join(base, 'alpha', 'inner.txt'), 'inside\n');
    writeFileSync(join(base, 'binary.bin'), Buffer.from([1, 0, 2]));
    writeFileSync(join(base, 'large.txt'), 'x'.repeat(1_100_000));
    await goTo(page, `files/${base}`);
    const item = (name: string) => page.getByRole('treeitem', { name, exact: true });
    const isFocused = (name: string) =>
      eventually(() => item(name).evaluate((row) => row === document.activeElement)).toBe(true);
    await item('alpha').waitFor();
    await item('base').focus();
    await page.keyboard.press('ArrowDown');
    await isFocused('alpha');
    await page.keyboard.press('ArrowRight');
    await item('inner.txt').waitFor();
    await page.keyboard.press('ArrowRight');
    await isFocused('inner.txt');
    await page.keyboard.press('Enter');
    await page.locator('.file-text', { hasText: 'inside' }).waitFor();
    await item('inner.txt').focus();
    await page.keyboard.press('ArrowLeft');
    await isFocused('alpha');
    await page.keyboard.press('ArrowLeft');
    await item('inner.txt').waitFor({ state: 'detached' });
    await item('alpha').locator('.twist').click();
    await item('inner.txt').waitFor();

    await button('Delete').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('This folder is empty').waitFor();
    expect(existsSync(join(base, 'alpha', 'inner.txt'))).toBe(false);
    await page.getByRole('link', { name: 'Parent folder', exact: true }).last().click();
    await page.getByText('3 entries').waitFor();
    await button('New folder').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('../outside');
    await page.keyboard.press('Enter');
    await dialog.getByText('The name contains a slash or a backslash.').waitFor();
    await dialog.getByLabel('Name').fill('made');
    await page.keyboard.press('Enter');
    await page.getByText('4 entries').waitFor();
    expect(statSync(join(base, 'made')).isDirectory()).toBe(true);

    const path = page.getByLabel('Path');
    await path.fill(`${base}/binary.bin`);
    await path.press('Enter');
    await page.getByText('This file is not text').waitFor();
    await path.fill(`${base}/large.txt/`);
    await path.press('Enter');
    await page.getByText('This file is too large to show (1.1 MB)').waitFor();
    await path.fill(`${base}/nothing`);
    await path.press('Enter');
    await page.getByText('This path cannot be opened').waitFor();
    // The tree begins with the directory of the server, and leads out of it.
    await goTo(page, `files/${process.cwd()}`);
    await page.getByRole('tree').getByRole('link', { name: 'Parent folder' }).click();
    await eventually(() => path.inputValue()).toBe(join(process.cwd(), '..'));
  });

  test('plays, pauses and seeks recordings, and says what cannot be played', async () => {
    plant(
      'steps',
      { command: 'steps' },
      '[0, "o", "one "]\n[3, "o", "two "]\n[3, "o", "three "]\n[0, "x", "0"]\n',
    );
    plant('torn', { command: 'torn' }, '[0, "o", "half"]\n');
    plant('huge', { command: 'huge', term: { cols: 65_535, rows: 65_535 } }, '[0, "x", "0"]\n');
    plant(
      'long',
      { command: 'long' },
      `[0, "o", "start"]\n[0, "o", "${'x'.repeat(1_200_000)}"]\n[0, "x", "0"]\n`,
    );
    const evil = '<img id=injected src=x onerror=alert(1)>';
    const sequences = ['\\u001b]0;', evil, '\\u0007\\u001b]52;c;c3RvbGVu\\u0007'].join('');
    const link = '\\u001b]8;;javascript:alert(1)\\u001b\\\\\\\\evil-link\\u001b]8;;\\u001b\\\\\\\\';
    plant('evil', { command: evil, title: evil }, `[0, "o", "${sequences}${link} ${evil}"]\n[0, "x", "0"]\n`);
    await page.evaluate(() => navigator.clipboard.writeText('kept'));
    await goTo(page, 'recordings');
    const entry = (name: string) => page.getByRole('listitem').filter({ hasText: name });
    await entry('torn').getByText('Incomplete').waitFor();
    const player = page.locator('.ap-player');
    const play = async (name: string) => {
      await goTo(page, 'recordings');
      await entry(name).getByRole('link').click();
    };

    await play('steps');
    await player.getByText('one').waitFor();
    // The player has the focus.
    await page.keyboard.press('Space');
    const bar = (await player.locator('.ap-progressbar .ap-bar').boundingBox())!;
    await page.mouse.click(bar.x + bar.width * 0.6, bar.y + bar.height / 2);
    await player.getByText('one two').waitFor();
    expect(await player.textContent()).not.toContain('three');
    await page.keyboard.press('Space');
    await player.getByText('one two three').waitFor();
    const size = page.viewportSize()!;
    await page.setViewportSize({ width: 360, height: 600 });
    const right = async () => {
      const { x, width } = (await player.boundingBox())!;
      return x + width;
    };
    await expect.poll(right).toBeLessThanOrEqual(360);
    await page.setViewportSize({ width: 800, height: 400 });
    const bottom = async () => {
      const { y, height } = (await player.boundingBox())!;
      return y + height;
    };
    await expect.poll(bottom).toBeLessThanOrEqual(400);
    await page.setViewportSize(size);

    await play('huge');
    await page
      .getByText('The recording cannot be played. Its terminal of 65535x65535 is too large to show.')
      .waitFor();
    // What a recording contains is text.
    await play('injected');
    await player.getByText('evil-link').waitFor();
    await page.getByRole('heading', { name: evil }).waitFor();
    expect(await page.locator('#injected, .ap-player a').count()).toBe(0);
    expect(await page.title()).not.toContain('img');
    expect(await clipboard()).toBe('kept');

    // The page plays as much as it can hold: here 1.1 MB instead of 64 MiB, which would take seconds to load.
    await page.route('**/assets/**/*.js', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()).replace('64*1024*1024', '1100000') });
    });
    await page.reload();
    await play('long');
    await page.getByText('Only the first 1.1 MB are played.').waitFor();
    await player.getByText('start').waitFor();
  });

  test('no page has reported a defect or asked another host', () => {
    expect(browser.defects).toEqual([]);
    expect([...browser.hosts]).toEqual([new URL(server.url!).host]);
  });
});

/** Adds a recording to the folder of the server. */
function plant(ref: string, header: object, events: string): void {
  const term = { cols: 80, rows: 24 };
  const subject = { ref, owner: 'local', tty: true };
  const all = { version: 3, term, timestamp: 1_700_000_000, exec_server: subject, ...header };
  writeFileSync(join(recordDir, `20260101T000000000Z-${ref}.cast`), `${JSON.stringify(all)}\n${events}`);
}
