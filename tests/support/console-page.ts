import type { Page } from 'playwright-core';
import type { RunningServer } from '../../src/server/serve.ts';
import type { TestBrowser } from './chromium.ts';
import { ConsoleBrowser } from './console-browser.ts';

/** Opens the console of a server, signed in. */
export async function openConsole(
  browser: TestBrowser,
  server: RunningServer,
  { readOnly = false, hash = '' } = {},
): Promise<Page> {
  const page = await browser.open(await consoleLink(server, readOnly), { acceptDownloads: true });
  await isOnline(page);
  if (hash !== '') await goTo(page, hash);
  return page;
}

/** A link to the console of a server, with the rights of a token if the server has tokens. */
export async function consoleLink(server: RunningServer, readOnly = false, token = ''): Promise<string> {
  const origin = server.url!.replace('ws:', 'http:');
  const authorization = token && `Bearer ${token}`;
  const { json } = await new ConsoleBrowser(origin).post('code', { readOnly }, { origin: '', authorization });
  return `${origin}/console/#code=${json.code}`;
}

export async function isOnline(page: Page): Promise<void> {
  await page.locator('[data-connection=online]').waitFor();
}

/** Goes to a view of the environment that is shown. */
export async function goTo(page: Page, place: string): Promise<void> {
  await page.evaluate((to) => {
    location.hash = `#/${location.hash.split('/')[1]}/${to}`;
  }, place);
}

/** Waits until the terminal shows a text without spaces. */
export async function seesText(page: Page, text: string | RegExp): Promise<void> {
  await page.locator('.xterm-rows', { hasText: text }).waitFor();
}

/** The lines of the terminal, as they are shown. */
export async function screenOf(page: Page): Promise<string> {
  const lines = await page.locator('.xterm-rows > div').allTextContents();
  return lines
    .map((line) => line.replaceAll('\u00a0', ' ').trimEnd())
    .join('\n')
    .trimEnd();
}

/** Everything that the terminal holds, its history included, by way of the clipboard. */
export async function allText(page: Page): Promise<string> {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Select all' }).click();
  await page.getByRole('button', { name: 'Copy the selection' }).click();
  await page.getByText('characters copied').first().waitFor();
  return page.evaluate(() => navigator.clipboard.readText());
}

/** Waits until this page drives the process, or watches it. */
export async function hasRole(page: Page, role: 'driver' | 'viewer'): Promise<void> {
  await page.locator(`[data-role=${role}]`).waitFor();
}

/** Clicks on a text in the terminal. The letters themselves receive no clicks, and each redraw replaces them. */
export async function clickText(page: Page, text: string): Promise<void> {
  const place = await page.waitForFunction((wanted) => {
    const spans = [...document.querySelectorAll('.xterm-rows span')];
    const box = spans.find(({ textContent }) => textContent?.includes(wanted))?.getBoundingClientRect();
    return box && { x: box.x + 10, y: box.y + box.height / 2 };
  }, text);
  const { x, y } = (await place.jsonValue())!;
  await page.mouse.move(x, y);
  await page.mouse.move(x + 2, y);
  await page.mouse.down();
  await page.mouse.up();
}

/** Types into the terminal. */
export async function typeKeys(page: Page, text: string): Promise<void> {
  await page.locator('.terminal-host textarea').focus();
  await page.keyboard.type(text);
}
