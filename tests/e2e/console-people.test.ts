import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect, type ExecServerClient } from '../../src/client/index.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { hasChromium, TestBrowser } from '../support/chromium.ts';
import { consoleLink, goTo, hasRole, isOnline, openConsole, seesText } from '../support/console-page.ts';

const folder = mkdtempSync(join(tmpdir(), 'console-people-'));
const shown = join(folder, 'shown');
let server: RunningServer;
let client: ExecServerClient;
let browser: TestBrowser;
let page: Page;

beforeAll(async () => {
  if (!hasChromium) return;
  mkdirSync(shown);
  server = await runServer({ console: true, logLevel: 'error', recordDir: join(folder, 'recordings') });
  client = await connect(server.url!);
  browser = await TestBrowser.launch();
  page = await browser.open('about:blank');
  await page.addInitScript(watchLayout);
  await page.goto(await consoleLink(server));
  await isOnline(page);
});
afterAll(async () => {
  await browser?.close();
  await client?.close();
  await server?.close();
  rmSync(folder, { recursive: true });
});

/** Polls until the assertion holds. */
const eventually = <T>(probe: () => T) => expect.poll(probe);

/** In the page: adds up how far the layout has moved without the user's doing. */
function watchLayout(): void {
  const found = { shift: 0 };
  Object.assign(window, { layout: found });
  type LayoutShift = PerformanceEntry & { value: number; hadRecentInput: boolean };
  const add = (list: PerformanceObserverEntryList) => {
    for (const { value, hadRecentInput } of list.getEntries() as LayoutShift[]) {
      if (!hadRecentInput) found.shift += value;
    }
  };
  new PerformanceObserver(add).observe({ type: 'layout-shift', buffered: true });
}

/** Loads the page at a view. Returns how far its layout has moved until the view is there. */
async function shiftWhileLoading(place: string, ready: Locator): Promise<number> {
  await goTo(page, place);
  await page.reload();
  await ready.first().waitFor();
  await isOnline(page);
  // The observer runs after the next frames.
  await page.evaluate(
    () =>
      new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve)))),
  );
  return page.evaluate(() => (window as unknown as { layout: { shift: number } }).layout.shift);
}

/** By how many pixels the page, its content and an open dialog are wider than their space. */
function overflow(): Promise<number[]> {
  return page.evaluate(() =>
    [document.documentElement, ...document.querySelectorAll('main, main > *, dialog')].map(
      ({ scrollWidth, clientWidth }) => Math.max(0, scrollWidth - clientWidth),
    ),
  );
}

const isFocused = (target: Locator) => target.evaluate((element) => element === document.activeElement);

/** Presses Tab until the target has the focus. */
async function tabTo(target: Locator): Promise<void> {
  await target.waitFor();
  for (let presses = 0; presses < 60; presses++) {
    if (await isFocused(target)) return;
    await page.keyboard.press('Tab');
  }
  throw new Error('the focus does not reach it');
}

/** Starts a program on a terminal that no client drives. Returns its reference. */
async function terminal(script: string): Promise<string> {
  const starter = await connect({ url: server.url!, detachedSessionTtlMs: 0 });
  const { ref } = await starter.spawn(['sh', '-c', script], { tty: true, detached: true });
  await starter.close();
  return ref!;
}

const LONG = 'a-very-long-name-without-a-space-'.repeat(6);

describe.skipIf(!hasChromium)('the console for people', () => {
  test('says what to do where there is nothing yet, and does not move while it loads', async () => {
    const text = (words: string) => page.getByText(words);
    const shifts = [
      await shiftWhileLoading('processes', text('Nothing runs here yet')),
      await shiftWhileLoading(`files/${shown}`, text('This folder is empty')),
      await shiftWhileLoading('recordings', text('No recordings yet')),
      await shiftWhileLoading('machine', text('No audit records')),
      await shiftWhileLoading('processes/unknown', text('This process is no longer here')),
    ];
    for (const words of ['No process has the reference or name unknown', 'removes ended processes']) {
      await text(words).waitFor();
    }
    await page.getByRole('button', { name: 'Show all processes' }).click();
    await text('Type a command above and press Enter').waitFor();

    writeFileSync(join(shown, 'text.txt'), 'some text\n');
    const pipe = await client.spawn(['cat'], { detached: true, pipeStdin: true, name: 'pipe' });
    const ref = await terminal('echo "first line"; read -r line');
    shifts.push(
      await shiftWhileLoading('processes', page.getByRole('row').filter({ hasText: ref })),
      await shiftWhileLoading(`processes/${pipe.ref}`, text('It has printed nothing yet.')),
      await shiftWhileLoading(`processes/${ref}`, page.locator('.xterm-rows', { hasText: 'first line' })),
      await shiftWhileLoading(`files/${shown}/text.txt`, page.locator('.file-text')),
      await shiftWhileLoading('recordings', page.locator('.recording')),
    );
    expect(shifts.map((shift) => (shift < 0.005 ? 0 : shift))).toEqual(shifts.map(() => 0));
    await pipe.kill();
  });

  test.each([360, 3840])('fits a window of %i pixels in every view', async (width) => {
    const name = LONG.slice(0, 60);
    const long = await client.spawn(['echo', LONG], { detached: true, name });
    await long.wait();
    writeFileSync(join(shown, `${LONG}.txt`), `${LONG}${LONG}\n`);
    const ref = await terminal(`printf '\\033]0;${LONG}\\007'; echo ready; read -r line`);
    // A low window has the same width, and takes less time to paint.
    await page.setViewportSize({ width, height: 640 });
    const places: [place: string, ready: Locator][] = [
      ['processes', page.getByRole('row').filter({ hasText: name })],
      [`processes/${long.ref}`, page.locator('.line')],
      [`processes/${ref}`, page.locator('.xterm-rows', { hasText: 'ready' })],
      [`files/${shown}`, page.getByRole('listitem').filter({ hasText: LONG })],
      [`files/${shown}/${LONG}.txt`, page.locator('.file-text')],
      ['recordings', page.locator('.recording', { hasText: LONG.slice(0, 40) })],
      ['machine', page.locator('.cards')],
    ];
    const found: Record<string, number> = {};
    const look = async (what: string) => {
      found[what] = Math.max(...(await overflow()));
    };
    for (const [place, ready] of places) {
      await goTo(page, place);
      await ready.first().waitFor();
      await look(place);
    }
    await page.getByRole('button', { name: /^Show all \d+ limits/ }).click();
    await look('limits');
    await goTo(page, 'processes');
    await page.getByLabel('Options').click();
    await look('options');
    const end = page.getByRole('row').filter({ hasText: ref }).getByRole('button');
    const help = page.getByRole('button', { name: 'Keyboard shortcuts' });
    for (const opener of [end, help]) {
      await opener.click();
      const dialog = page.getByRole('dialog');
      await dialog.waitFor();
      await look((await dialog.getByRole('heading').textContent())!);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
    expect(found).toEqual(Object.fromEntries(Object.keys(found).map((what) => [what, 0])));
    await page.setViewportSize({ width: 1200, height: 760 });
  });

  test('shows names and buttons in full in a window of 768 pixels', async () => {
    for (const name of ['a-name', LONG.slice(0, 60)]) {
      await (await client.spawn(['echo', 'recorded'], { record: true, name })).wait();
    }
    writeFileSync(join(shown, 'narrow.txt'), 'some text\n');
    await page.setViewportSize({ width: 768, height: 640 });
    const isCut = (target: Locator) =>
      target.evaluate(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth);
    await goTo(page, 'recordings');
    const recording = page.locator('.recording', { hasText: 'a-name' });
    await recording.waitFor();
    expect(await isCut(recording.locator('.recording-main'))).toBe(false);
    expect(await isCut(recording.getByText('echo recorded'))).toBe(false);
    const long = page
      .locator('.recording', { hasText: LONG.slice(0, 60) })
      .filter({ hasText: 'echo recorded' });
    expect(await isCut(long.locator('.recording-main'))).toBe(false);
    expect(await isCut(long.getByText('echo recorded'))).toBe(false);
    await goTo(page, `files/${shown}/narrow.txt`);
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('button', { name: 'Save' }).waitFor();
    expect(await isCut(page.locator('.file-bar'))).toBe(false);
    expect(await isCut(page.locator('.file-bar h2'))).toBe(false);
    await page.getByRole('button', { name: 'Discard' }).click();
    await page.setViewportSize({ width: 1200, height: 760 });
  });

  test('is used with the keyboard alone', async () => {
    const heading = (name: string) => page.getByRole('heading', { name, exact: true });
    await goTo(page, 'machine');
    await page.reload();
    await heading('This machine').waitFor();
    await page.keyboard.press('Tab');
    expect(await isFocused(page.getByRole('button', { name: 'Skip to the content' }))).toBe(true);
    await page.keyboard.press('Enter');
    expect(await isFocused(page.locator('main'))).toBe(true);
    for (const [key, name] of [
      ['1', 'Processes'],
      ['2', 'Files'],
      ['3', 'Recordings'],
      ['4', 'This machine'],
    ] as const) {
      await page.keyboard.press(key);
      await heading(name).waitFor();
    }
    await page.keyboard.press('?');
    await heading('Keyboard shortcuts').waitFor();
    await page.keyboard.press('Escape');
    await heading('Keyboard shortcuts').waitFor({ state: 'detached' });

    // Files: to the list, into a file, into the editor.
    writeFileSync(join(shown, 'text.txt'), 'some text\n');
    await goTo(page, `files/${shown}`);
    await tabTo(page.getByRole('link', { name: 'text.txt' }));
    await page.keyboard.press('Enter');
    await tabTo(page.getByRole('button', { name: 'Edit' }));
    await page.keyboard.press('Enter');
    await page.keyboard.type('typed ');
    await page.keyboard.press('Control+s');
    await page.getByText('text.txt saved').waitFor();

    // A recording: the player takes the keys.
    await client.run(['echo', 'played']);
    await page.keyboard.press('3');
    await tabTo(page.getByRole('link', { name: 'echo played' }).first());
    await page.keyboard.press('Enter');
    await eventually(() => isFocused(page.getByRole('group', { name: 'Player' }))).toBe(true);
    await tabTo(page.getByRole('link', { name: 'All recordings' }));

    // A terminal that another browser drives: take over, type, leave it.
    const ref = await terminal('echo ready; read -r line; echo "got-$line"; read -r line');
    const other = await openConsole(browser, server, { hash: `processes/${ref}` });
    await hasRole(other, 'driver');
    await goTo(page, `processes/${ref}`);
    await hasRole(page, 'viewer');
    await seesText(page, 'ready');
    await page.keyboard.press('Control+F6');
    await tabTo(page.getByRole('button', { name: 'Take over' }));
    await page.keyboard.press('Enter');
    await hasRole(page, 'driver');
    await page.keyboard.type('keys\n');
    await seesText(page, 'got-keys');
    await page.keyboard.press('Tab');
    expect(await isFocused(page.locator('.xterm-helper-textarea'))).toBe(true);
    await page.keyboard.press('Control+F6');
    await eventually(() => isFocused(page.getByRole('button', { name: 'Search in the terminal' }))).toBe(
      true,
    );
    await other.context().close();
  });

  test('terminals have a screen reader mode, the colours of the page, and a cursor that need not blink', async () => {
    const ref = await terminal('echo "spoken words"; read -r line');
    await goTo(page, `processes/${ref}`);
    await seesText(page, 'spoken');
    const spoken = page.locator('.xterm-accessibility-tree');
    expect(await spoken.count()).toBe(0);
    await page.getByRole('button', { name: 'Screen reader mode of terminals' }).click();
    await spoken.getByText('spoken words').waitFor();
    await page.getByRole('button', { name: 'Screen reader mode of terminals' }).click();
    await spoken.waitFor({ state: 'detached' });

    const colour = (selector: string, name: 'color' | 'backgroundColor') => () =>
      page
        .locator(selector)
        .first()
        .evaluate((element, property) => getComputedStyle(element)[property], name);
    const text = colour('.xterm-rows', 'color');
    await page.emulateMedia({ colorScheme: 'dark' });
    await eventually(text).toBe('rgb(217, 220, 227)');
    await page.emulateMedia({ colorScheme: 'light' });
    await eventually(text).toBe('rgb(35, 38, 45)');

    await page.locator('.xterm-helper-textarea').focus();
    const blinking = page.locator('.xterm-cursor-blink');
    await blinking.waitFor();
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    await page.reload();
    await seesText(page, 'spoken');
    await page.locator('.xterm-helper-textarea').focus();
    await page.locator('.xterm-cursor').waitFor();
    expect(await blinking.count()).toBe(0);

    // The player has the colours of the page too, also when they change.
    await client.run(['echo', 'coloured']);
    await goTo(page, 'recordings');
    await page.getByRole('link', { name: 'echo coloured' }).click();
    const background = colour('.ap-player', 'backgroundColor');
    await eventually(background).toBe('rgb(255, 255, 255)');
    await page.emulateMedia({ colorScheme: 'dark' });
    await eventually(background).toBe('rgb(20, 22, 27)');
    expect(await page.locator('.ap-player').count()).toBe(1);
  });

  test('no page has reported a defect or asked another host', () => {
    expect(browser.defects).toEqual([]);
    expect([...browser.hosts].filter((host) => host !== '')).toEqual([new URL(server.url!).host]);
  });
});
