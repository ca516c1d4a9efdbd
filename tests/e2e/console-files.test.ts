import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { connect, type ExecServerClient } from '../../src/client/index.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { hasChromium, TestBrowser } from '../support/chromium.ts';
import { consoleLink, goTo, isOnline, openConsole } from '../support/console-page.ts';
import { whileTaken } from '../support/free-port.ts';

const folder = mkdtempSync(join(tmpdir(), 'console-files-'));
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

/** The hosts of further servers. */
const hosts: string[] = [];

/** Polls until the assertion holds. */
const eventually = <T>(probe: () => T) => expect.poll(probe);

describe.skipIf(!hasChromium)('the files of the console', () => {
  test('shows, edits, uploads and downloads files, and finds a conflict', async () => {
    const path = join(folder, 'notes.md');
    writeFileSync(path, '\ufeffone\r\ntwo\nthree\r\n');
    await goTo(page, `files/${folder}`);
    await page.getByRole('listitem').filter({ hasText: 'notes.md' }).click();
    await page.locator('.file-text', { hasText: 'two' }).waitFor();
    await page.getByRole('button', { name: 'Edit' }).click();
    const focused = page.locator('textarea:focus');
    await focused.waitFor();
    // Lines that do not change keep their endings.
    await page.keyboard.type('zero\n');
    await page.getByRole('button', { name: 'Save' }).click();
    await eventually(() => readFileSync(path, 'utf8')).toBe('\ufeffzero\r\none\r\ntwo\nthree\r\n');
    await page.locator('.file-facts', { hasText: /^25 B .* mixed line endings$/ }).waitFor();

    await page.getByRole('button', { name: 'Edit' }).click();
    writeFileSync(path, 'theirs\n');
    await focused.waitFor();
    await page.keyboard.press('Control+a');
    await page.keyboard.type('mine again\n');
    await page.keyboard.press('Control+s');
    await page.getByText('was changed on the machine').waitFor();
    expect(readFileSync(path, 'utf8')).toBe('theirs\n');
    await page.getByRole('button', { name: 'Replace' }).click();
    const saved = '\ufeffmine again\r\n';
    await eventually(() => readFileSync(path, 'utf8')).toBe(saved);

    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download', exact: true }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('notes.md');
    expect(readFileSync(await download.path(), 'utf8')).toBe(saved);

    await page.getByRole('button', { name: 'Edit' }).click();
    await focused.waitFor();
    await page.keyboard.type('lost');
    const asksBeforeUnload = () =>
      page.evaluate(() => !dispatchEvent(new Event('beforeunload', { cancelable: true })));
    expect(await asksBeforeUnload()).toBe(true);
    const question = page.getByRole('heading', { name: 'Discard your changes?' });
    await page.getByRole('link', { name: 'Machine' }).click();
    await question.waitFor();
    await page.keyboard.press('Enter');
    await question.waitFor({ state: 'detached' });
    expect(await page.getByLabel('Content of notes.md').inputValue()).toContain('lost');
    await page.goBack();
    await question.waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
    await page.locator('.entries').waitFor();
    expect(await asksBeforeUnload()).toBe(false);
    expect(readFileSync(path, 'utf8')).toBe(saved);

    // The view of files remembers the folder.
    await goTo(page, 'files');
    const content = Buffer.from(Array.from({ length: 3_000_000 }, (_, index) => index % 251));
    await page
      .getByLabel('Files to upload')
      .setInputFiles({ name: 'data.bin', mimeType: 'application/octet-stream', buffer: content });
    await eventually(() => readdirSync(folder)).toContain('data.bin');
    expect(readFileSync(join(folder, 'data.bin')).equals(content)).toBe(true);
    await page.getByRole('listitem').filter({ hasText: 'data.bin' }).filter({ hasText: '3.0 MB' }).waitFor();
    // The page does not show the second one yet.
    writeFileSync(join(folder, 'late.txt'), saved);
    const others = ['notes.md', 'late.txt'].map((name) => ({
      name,
      mimeType: '',
      buffer: Buffer.from('other'),
    }));
    await page.getByLabel('Files to upload').setInputFiles(others);
    await page.getByRole('heading', { name: 'Replace files?' }).waitFor();
    await page.getByText('This folder already contains notes.md, late.txt.').waitFor();
    await page.keyboard.press('Enter');
    for (const { name } of others) expect(readFileSync(join(folder, name), 'utf8')).toBe(saved);

    await client.run(['mkfifo', join(folder, 'pipe')]);
    await goTo(page, `files/${folder}/pipe`);
    await page.getByText('This is a special file').waitFor();
  });

  test('keeps text that is typed while the editor saves, and saves once', async () => {
    const path = join(folder, 'typed.txt');
    writeFileSync(path, '');
    await goTo(page, `files/${path}`);
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.locator('textarea:focus').evaluate(async (area: HTMLTextAreaElement) => {
      // The page renders after each event and before the server can answer.
      const send = async (event: Event) => void (await area.dispatchEvent(event));
      const type = async (text: string) => {
        area.value = text;
        await send(new InputEvent('input', { bubbles: true }));
      };
      const save = () => send(new KeyboardEvent('keydown', { key: 's', ctrlKey: true, bubbles: true }));
      await type('first');
      await save();
      await save();
      await type('first, second');
    });
    await page.getByText('typed.txt saved').waitFor();
    expect(readFileSync(path, 'utf8')).toBe('first');
    expect(await page.getByText('was changed on the machine').count()).toBe(0);
    await page.getByRole('button', { name: 'Save' }).click();
    await eventually(() => readFileSync(path, 'utf8')).toBe('first, second');
    await page.getByRole('button', { name: 'Edit' }).waitFor();
    expect(await page.getByText('typed.txt saved').count()).toBeLessThanOrEqual(2);
  });

  test('saves and downloads the text of a file that is deleted meanwhile', async () => {
    const parent = join(folder, 'gone');
    const path = join(parent, 'gone.txt');
    mkdirSync(parent);
    writeFileSync(path, 'old\r\n');
    await goTo(page, `files/${path}`);
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.locator('textarea:focus').waitFor();
    await page.keyboard.type('mine ');
    rmSync(parent, { recursive: true });
    await page.keyboard.press('Control+s');
    await page.getByText('gone.txt was deleted or renamed on the machine').waitFor();
    // The dialog does not hide why the text cannot be saved.
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('alert').filter({ hasText: 'The file was not saved.' }).waitFor();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download your text' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('gone.txt');
    expect(readFileSync(await download.path(), 'utf8')).toBe('mine old\r\n');
    mkdirSync(parent);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('gone.txt saved').waitFor();
    expect(readFileSync(path, 'utf8')).toBe('mine old\r\n');
  });
});

test.skipIf(!hasChromium)(
  'the editor replaces nothing that another program writes while it saves',
  async () => {
    const path = join(folder, 'race.txt');
    writeFileSync(path, 'old\n');
    const own = await browser.open('about:blank');
    await own.routeWebSocket(/\/console\/connect$/, (route) => {
      const server = route.connectToServer();
      route.onMessage((message) => {
        // The last request of a replacement.
        if (String(message).includes('"fs/close"') && !String(message).includes('discard')) {
          if (readFileSync(path, 'utf8') === 'old\n') writeFileSync(path, 'theirs\n');
        }
        server.send(message);
      });
    });
    await own.goto(await consoleLink(server));
    await isOnline(own);
    await goTo(own, `files/${path}`);
    await own.getByRole('button', { name: 'Edit' }).click();
    await own.locator('textarea:focus').waitFor();
    await own.keyboard.type('mine ');
    await own.keyboard.press('Control+s');
    await own.getByText('was changed on the machine').waitFor();
    expect(readFileSync(path, 'utf8')).toBe('theirs\n');
    await own.getByRole('button', { name: 'Replace' }).click();
    await eventually(() => readFileSync(path, 'utf8')).toBe('mine old\n');
    await own.context().close();
  },
);

describe.skipIf(!hasChromium)('text that is not saved when the session ends', () => {
  const path = join(folder, 'draft.txt');
  const notice = (page: Page) => page.getByText('Your changes to draft.txt are not saved.');
  const editor = (page: Page) => page.getByLabel('Content of draft.txt');
  const stored = (page: Page) => page.evaluate(() => sessionStorage.getItem('exec-server-console.drafts'));

  /** Signs a new browser in, and types into the file. */
  async function edit(server: RunningServer): Promise<Page> {
    writeFileSync(path, 'one\r\ntwo\n');
    const own = await openConsole(browser, server, { hash: `files/${path}` });
    own.on('dialog', (dialog) => dialog.accept());
    await own.getByRole('button', { name: 'Edit' }).click();
    await own.locator('textarea:focus').waitFor();
    await own.keyboard.type('mine ');
    return own;
  }

  test('is downloaded from the last page, edited after the next sign-in, and removed when it is saved', async () => {
    const own = await edit(server);
    const tab = await own.context().newPage();
    await tab.goto(own.url());
    await tab.getByRole('button', { name: 'Sign out' }).click();
    await own.getByText('You are signed out').waitFor();
    await notice(own).waitFor();
    const [download] = await Promise.all([
      own.waitForEvent('download'),
      own.getByRole('button', { name: 'Download' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('draft.txt');
    expect(readFileSync(await download.path(), 'utf8')).toBe('mine one\r\ntwo\n');

    await own.goto(await consoleLink(server));
    await own.getByRole('button', { name: 'Open' }).click();
    await own.locator('textarea:focus').waitFor();
    await own.keyboard.type('still ');
    expect(await notice(own).count()).toBe(0);
    await own.reload();
    await eventually(() => editor(own).inputValue()).toBe('still mine one\ntwo\n');
    await own.keyboard.press('Control+s');
    await own.getByText('draft.txt saved').waitFor();
    expect(readFileSync(path, 'utf8')).toBe('still mine one\r\ntwo\n');
    expect(await stored(own)).toBe(null);
    await own.reload();
    await own.getByRole('button', { name: 'Edit' }).waitFor();
    expect(await notice(own).count()).toBe(0);
    await own.context().close();
  });

  test('comes back after a restart of the server, and does not replace changes of others', async () => {
    const first = await runServer({ console: true, logLevel: 'error' });
    hosts.push(new URL(first.url!).host);
    const own = await edit(first);
    await first.close();
    const listen = first.url!;
    const second = await whileTaken(() => runServer({ console: true, logLevel: 'error', listen }));
    onTestFinished(() => second.close());
    await own.getByText('You are signed out').waitFor();
    await notice(own).waitFor();
    writeFileSync(path, 'theirs\n');
    const tab = await own.context().newPage();
    await tab.goto(await consoleLink(second));
    await eventually(() => editor(own).inputValue()).toBe('mine one\ntwo\n');
    await own.keyboard.press('Control+s');
    await own.getByText('was changed on the machine').waitFor();
    await own.getByRole('button', { name: 'Load theirs' }).click();
    await own.locator('.file-text', { hasText: 'theirs' }).waitFor();
    expect([await stored(own), readFileSync(path, 'utf8')]).toEqual([null, 'theirs\n']);
    await own.context().close();
  });

  test('is not offered to viewers, and is gone after it was discarded', async () => {
    const own = await edit(server);
    const expired = { error: 'expired', message: 'over' };
    await own.route('**/console/ticket', (route) => route.fulfill({ status: 401, json: expired }));
    browser.proxy.cut();
    browser.proxy.restore();
    await own.getByText('Your session has expired').waitFor();
    await notice(own).waitFor();
    await own.unroute('**/console/ticket');

    await own.goto(await consoleLink(server, true));
    await isOnline(own);
    expect(await notice(own).count()).toBe(0);
    await goTo(own, `files/${path}`);
    await own.locator('.file-text', { hasText: 'one' }).waitFor();
    expect(await editor(own).count()).toBe(0);

    await own.goto(await consoleLink(server));
    await notice(own).waitFor();
    await own.getByRole('button', { name: 'Discard' }).click();
    await own.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
    await notice(own).waitFor({ state: 'detached' });
    expect(await stored(own)).toBe(null);
    await goTo(own, `files/${path}`);
    await own.locator('.file-text', { hasText: 'one' }).waitFor();
    expect(await editor(own).count()).toBe(0);
    await own.context().close();
  });
});

test.skipIf(!hasChromium)('no page has reported a defect or asked another host', () => {
  expect(browser.defects).toEqual([]);
  expect([...browser.hosts].sort()).toEqual([new URL(server.url!).host, ...hosts].sort());
});
