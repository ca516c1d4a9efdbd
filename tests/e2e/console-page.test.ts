import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { connect, type ExecServerClient } from '../../src/client/index.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { hasChromium, TestBrowser } from '../support/chromium.ts';
import {
  consoleLink,
  goTo,
  hasRole,
  isOnline,
  openConsole,
  seesText,
  typeKeys,
} from '../support/console-page.ts';

const folder = mkdtempSync(join(tmpdir(), 'console-page-'));
let server: RunningServer;
let client: ExecServerClient;
let browser: TestBrowser;
/** The page of a user who may do everything. */
let page: Page;

beforeAll(async () => {
  if (!hasChromium) return;
  server = await runServer({ console: true, logLevel: 'error' });
  client = await connect(server.url!);
  browser = await TestBrowser.launch();
  page = await openConsole(browser, server);
});
beforeEach(async () => {
  await page?.evaluate(() => {
    location.hash = '#/';
  });
});
afterAll(async () => {
  await browser?.close();
  await client?.close();
  await server?.close();
  rmSync(folder, { recursive: true });
});

/** Polls until the assertion holds. */
const eventually = <T>(probe: () => T) => expect.poll(probe);

const startField = (page: Page) => page.getByLabel('Command to start');

test.skipIf(!hasChromium)('the first terminal needs at most 200 KB', async () => {
  const { ref } = await client.spawn(['echo', 'painted'], { tty: true, detached: true });
  const own = await browser.open('about:blank');
  const sizes: Promise<number>[] = [];
  own.on('requestfinished', (request) => {
    // Playwright reports an icon from the cache with a size below 0.
    sizes.push(request.sizes().then((size) => Math.max(0, size.responseBodySize)));
  });
  await own.goto(await consoleLink(server));
  await isOnline(own);
  await goTo(own, `processes/${ref}`);
  await seesText(own, 'painted');
  const bytes = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  // The page, two scripts and a style sheet at least.
  expect(bytes).toBeGreaterThan(100 * 1024);
  expect(bytes).toBeLessThan(200 * 1024);
  await own.context().close();
});

describe.skipIf(!hasChromium)('the page of the console', () => {
  test('signs in with a link that works once', async () => {
    const link = await consoleLink(server);
    const first = await browser.open(link);
    await isOnline(first);
    expect(first.url()).not.toContain('code=');
    const second = await browser.open(link);
    await second.getByText('This link does not work any more').waitFor();
    await second.getByText(`exec-server console --link -E ${server.url}`).waitFor();
    // It fits a phone, and a low window shows its beginning.
    await second.setViewportSize({ width: 320, height: 200 });
    const card = (await second.locator('.end-card').boundingBox())!;
    expect([card.x, card.width, card.y]).toEqual([20, 280, 20]);
    const widths = await second
      .locator('.end-card, .command')
      .evaluateAll((all) => all.map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth));
    expect(widths).toEqual([0, 0]);
    // A used link does not end a session.
    await first.evaluate((hash) => {
      location.hash = hash;
    }, new URL(link).hash);
    await first.getByText('You are still signed in').waitFor();
    await isOnline(first);
    await second.goto(first.url());
    await second.reload();
    await second.getByText('Sign in with a link').waitFor();
    await Promise.all([first.context().close(), second.context().close()]);
  });

  test('starts a command on a terminal, which this browser still drives after a reload, beside its other tabs', async () => {
    const other = await client.spawn(['sleep', '1000'], { detached: true, name: 'other' });
    await goTo(page, `processes/${other.ref}`);
    const tabs = page.getByRole('navigation', { name: 'Open processes' }).getByRole('listitem');
    await tabs.filter({ hasText: 'other' }).waitFor();
    await goTo(page, 'processes');
    await startField(page).waitFor();
    await page.keyboard.press('n');
    await page.keyboard.type('echo hello-$((6*7)); read -r line; exit 3');
    await page.keyboard.press('Enter');
    await seesText(page, 'hello-42');
    await hasRole(page, 'driver');
    await page.reload();
    await hasRole(page, 'driver');
    await seesText(page, 'hello-42');
    await eventually(() => tabs.allTextContents()).toEqual(['other', expect.stringContaining('hello')]);
    expect(await tabs.locator('a[aria-current=page]').allTextContents()).toEqual([
      expect.stringContaining('hello'),
    ]);
    // The name of a button contains what it shows.
    for (const text of ['A−', 'A+']) await page.getByRole('button', { name: text }).waitFor();
    await typeKeys(page, '\n');
    await page.locator('.facts', { hasText: 'Exit 3' }).waitFor();
  });

  test('starts a command with options, separates its streams, and sends it input', async () => {
    await startField(page).fill('echo to-$WHERE; echo problem >&2; read -r line; echo "got $line in $PWD"');
    await page.getByLabel('Options').click();
    await page.getByRole('button', { name: 'Pipes' }).click();
    await page.getByLabel('Name').fill('job');
    await page.getByRole('textbox', { name: 'Directory' }).fill(folder);
    await page.getByLabel('Environment', { exact: true }).fill('WHERE=stdout');
    await page.getByLabel('Keep stdin open').check();
    await page.getByRole('button', { name: 'Start' }).click();
    await page.locator('.line.stdout', { hasText: 'to-stdout' }).waitFor();
    await page.locator('.line.stderr', { hasText: 'problem' }).waitFor();
    await page.getByRole('button', { name: 'stderr', exact: true }).click();
    await page.locator('.line.stdout').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'All', exact: true }).click();
    await page.getByLabel('A line for stdin').fill('words');
    await page.keyboard.press('Enter');
    await page.locator('.line', { hasText: `got words in ${folder}` }).waitFor();
    await page.locator('.facts', { hasText: 'Exit 0' }).waitFor();
  });

  test('says why a command was not started', async () => {
    await startField(page).fill('true');
    await page.getByLabel('Options').click();
    await page.getByRole('textbox', { name: 'Directory' }).fill('/no/such/folder');
    await page.keyboard.press('Enter');
    const alert = page.getByRole('alert').filter({ hasText: 'The command was not started' });
    await alert.waitFor();
    expect(await alert.textContent()).not.toMatch(/cwd|os error/);
    expect(await startField(page).inputValue()).toBe('true');
  });

  test('lists, filters and ends processes with the keyboard alone', async () => {
    await client.spawn(['sleep', '1234'], { detached: true, name: 'sleeper' });
    await Promise.all(Array.from({ length: 150 }, () => client.run(['true'], { detached: true })));
    await page.keyboard.press('/');
    await page.keyboard.type('true');
    const grid = page.getByRole('grid', { name: 'Processes' });
    await eventually(async () => Number(await grid.getAttribute('aria-rowcount'))).toBeGreaterThanOrEqual(
      150,
    );
    // Only rows near the visible part exist, at the end of the list as well.
    expect(await page.getByRole('row').count()).toBeLessThan(80);
    await grid.press('End');
    await page.locator(`[role=row][aria-rowindex="${await grid.getAttribute('aria-rowcount')}"]`).waitFor();
    expect(await page.getByRole('row').count()).toBeLessThan(80);
    await page.getByLabel('Filter processes').fill('sleep 1234');
    await eventually(() => grid.getAttribute('aria-rowcount')).toBe('1');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Delete');
    const question = page.getByRole('heading', { name: 'End sleeper?' });
    await question.waitFor();
    // The focus is on Cancel.
    await page.keyboard.press('Enter');
    await page.locator('[role=grid]:focus').waitFor();
    await page.keyboard.press('Delete');
    await question.waitFor();
    await page.getByRole('button', { name: 'End process' }).press('Enter');
    await page.getByRole('row', { name: 'SIGTERM' }).waitFor();
    await page.keyboard.press('Escape');
    await grid.focus();
    await page.keyboard.press('Enter');
    await page.getByText('It printed nothing').waitFor();
  });

  test('says that an address names an unknown environment', async () => {
    await page.evaluate(() => {
      location.hash = '#/other/processes';
    });
    await page.getByText('There is no environment other here').waitFor();
    await page.getByRole('link', { name: 'this server' }).click();
    await isOnline(page);
  });

  test('records a command and plays the recording', async () => {
    await startField(page).fill('echo recorded-$((70+7))');
    await page.getByLabel('Options').click();
    await page.getByLabel('Record', { exact: true }).check();
    await page.keyboard.press('Enter');
    await page.locator('.facts', { hasText: 'Exit 0' }).waitFor();
    await goTo(page, 'recordings');
    await page.getByRole('link', { name: 'recorded' }).click();
    await page.locator('.ap-player').getByText('recorded-77').waitFor();
    // A terminal that is too large to play.
    const huge = await client.spawn(['cat'], { tty: true, record: true });
    await huge.resize(65_535, 65_535);
    await huge.kill();
    await huge.wait();
    await goTo(page, 'recordings');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download the recording of cat' }).click(),
    ]);
    const recording = readFileSync(await download.path(), 'utf8');
    expect(recording).toMatch(/^\{"version":3/);
    expect(recording).toContain('"65535x65535"');
  });

  test('shows the machine', async () => {
    await goTo(page, 'machine');
    await page.getByRole('region', { name: 'System' }).getByText(process.version).waitFor();
    await page.getByRole('button', { name: /^Show all \d+ limits$/ }).click();
    await page.locator('.limits dt').nth(20).waitFor();
  });

  test('a link for watching can start, type, end, write and take over nothing', async () => {
    const shell = await client.spawn(['cat'], { detached: true, tty: true, name: 'watched' });
    const viewer = await openConsole(browser, server, { readOnly: true });
    await viewer.getByText('View only').waitFor();
    expect(await startField(viewer).count()).toBe(0);
    await goTo(viewer, `processes/${shell.ref}`);
    await hasRole(viewer, 'viewer');
    await shell.write('shown-text\n');
    await seesText(viewer, 'shown-text');
    await typeKeys(viewer, 'intruder\n');
    await shell.write('last-text\n');
    await seesText(viewer, 'last-text');
    expect(await viewer.locator('.xterm-rows').textContent()).not.toContain('intruder');
    expect(await viewer.getByRole('button', { name: /Take over|End process/ }).count()).toBe(0);
    writeFileSync(join(folder, 'seen.txt'), '');
    await goTo(viewer, `files/${folder}`);
    await viewer.getByRole('listitem').filter({ hasText: 'seen.txt' }).waitFor();
    expect(await viewer.getByRole('button', { name: /Upload|New folder|Delete|Edit/ }).count()).toBe(0);
    await viewer.context().close();
    await shell.terminate();
  });

  test('every tab of the browser has the rights of its latest link, until one of them signs out', async () => {
    const own = await openConsole(browser, server);
    await startField(own).waitFor();
    const tab = await own.context().newPage();
    await tab.goto(await consoleLink(server, true));
    await isOnline(tab);
    await own.getByText('View only').waitFor();
    await isOnline(own);
    expect(await startField(own).count()).toBe(0);
    await own.getByRole('button', { name: 'Sign out' }).click();
    await own.getByText('You are signed out').waitFor();
    await tab.getByText('You are signed out').waitFor();
    await own.reload();
    await own.getByText('You are signed out').waitFor();
    await own.context().close();
  });

  test('a server that does not answer has its own message, and the page tries again by itself', async () => {
    await page.route('**/console/session', (route) => route.abort());
    await page.reload();
    await page.getByRole('heading', { name: 'The server does not answer' }).waitFor();
    await page.unroute('**/console/session');
    await isOnline(page);
  });

  test('colours follow the system until the user chooses', async () => {
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    await page.emulateMedia({ colorScheme: 'dark' });
    await eventually(theme).toBe('dark');
    await page.getByRole('button', { name: 'Colours: as the system' }).click();
    await eventually(theme).toBe('light');
    await page.reload();
    await isOnline(page);
    expect(await theme()).toBe('light');
  });

  test('no page has reported a defect or asked another host', () => {
    expect(browser.defects).toEqual([]);
    expect([...browser.hosts]).toEqual([new URL(server.url!).host]);
  });
});
