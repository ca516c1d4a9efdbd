import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { hasChromium, TestBrowser } from '../support/chromium.ts';
import { goTo, openConsole } from '../support/console-page.ts';

const folder = mkdtempSync(join(tmpdir(), 'console-uploads-'));
let server: RunningServer;
let browser: TestBrowser;
let page: Page;

beforeAll(async () => {
  if (!hasChromium) return;
  server = await runServer({ console: true, logLevel: 'error' });
  browser = await TestBrowser.launch();
  page = await openConsole(browser, server);
});
afterAll(async () => {
  await browser?.close();
  await server?.close();
  rmSync(folder, { recursive: true });
});

/** Polls until the assertion holds. */
const eventually = <T>(probe: () => T) => expect.poll(probe);

describe.skipIf(!hasChromium)('an upload', () => {
  /** Holds the folder that the page shows, and what must stay as it is. */
  const base = join(folder, 'base');
  const shown = join(base, 'parent', 'shown');
  /** Everything outside of the shown folder. */
  const outside = () =>
    readdirSync(base, { recursive: true, encoding: 'utf8' }).filter(
      (path) => !path.startsWith('parent/shown/'),
    );
  const untouched = ['kept', 'parent', 'parent/shown'];

  beforeEach(async () => {
    rmSync(base, { recursive: true, force: true });
    mkdirSync(shown, { recursive: true });
    writeFileSync(join(base, 'kept'), 'kept');
    await goTo(page, 'processes');
    await goTo(page, `files/${shown}`);
    await page.getByText('This folder is empty').waitFor();
  });

  /** Drops files that only a script can create: their names can be any text. */
  const drop = (files: readonly { name: string; relativePath?: string }[]) =>
    page.locator('.file-pane').evaluate((pane, all) => {
      const dataTransfer = new DataTransfer();
      for (const { name, relativePath } of all) {
        const file = new File(['content'], name);
        dataTransfer.items.add(file);
        if (relativePath !== undefined) {
          Object.defineProperty(File.prototype, 'webkitRelativePath', { get: () => relativePath });
        }
      }
      pane.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    }, files);
  const alert = () => page.locator('.file-pane').getByRole('alert');
  const content = (name: string) => readFileSync(join(shown, name), 'utf8');

  const CANNOT_BE_SEEN = 'a character that cannot be seen or that changes the direction of text';
  test.each([
    ['two dots', '..', '.. was not uploaded. The name .. stands for a folder.'],
    ['one dot', '.', '. was not uploaded. The name . stands for a folder.'],
    ['a parent folder', '../x', '../x was not uploaded. The name contains a slash'],
    ['a folder', 'a/b', 'a/b was not uploaded. The name contains a slash'],
    ['an absolute path', join(base, 'absolute'), 'absolute was not uploaded. The name contains a slash'],
    ['backslashes', '..\\..\\x', '..\\..\\x was not uploaded. The name contains a slash or a backslash'],
    ['a NUL character', 'x\0.png', `x\ufffd.png was not uploaded. The name contains ${CANNOT_BE_SEEN}`],
    [
      'an escape sequence',
      '\u001b[31mred',
      `\ufffd[31mred was not uploaded. The name contains ${CANNOT_BE_SEEN}`,
    ],
    ['a line break', 'x\ny', `x\ufffdy was not uploaded. The name contains ${CANNOT_BE_SEEN}`],
    [
      'a bidi override',
      'x\u202egnp.sh',
      `x\ufffdgnp.sh was not uploaded. The name contains ${CANNOT_BE_SEEN}`,
    ],
    ['a zero-width space', 'x\u200b.sh', `x\ufffd.sh was not uploaded. The name contains ${CANNOT_BE_SEEN}`],
    [
      'a joiner between letters',
      'x\u200dy',
      `x\ufffdy was not uploaded. The name contains ${CANNOT_BE_SEEN}`,
    ],
    ['256 bytes', 'x'.repeat(256), 'The name has 256 bytes; at most 255 are possible.'],
    ['128 letters of two bytes', 'ä'.repeat(128), 'The name has 256 bytes; at most 255 are possible.'],
    ['no name', '', 'A file without a name was not uploaded. The name is empty.'],
  ])('is refused with a name that has %s', async (_, name, message) => {
    // The good file shows that the page has gone on after the bad one.
    await drop([{ name }, { name: 'good.txt' }]);
    await page.getByRole('listitem').filter({ hasText: 'good.txt' }).waitFor();
    expect(await alert().textContent()).toContain(message);
    expect(readdirSync(shown)).toEqual(['good.txt']);
    expect(outside()).toEqual(untouched);
  });

  test('takes names that look like options, escapes, shell or HTML as they are', async () => {
    const names = [
      '-rf',
      '--help',
      '%2e%2e%2fx',
      'a?b#c',
      '~',
      '$(touch y)',
      '<img src=x onerror=alert(1)>',
      '\u{1f468}\u200d\u{1f469}',
      'x'.repeat(255),
    ];
    await drop(names.map((name) => ({ name })));
    await eventually(() =>
      page
        .locator('.entries .ellipsis')
        .allTextContents()
        .then((all) => all.sort()),
    ).toEqual(names.toSorted());
    expect(readdirSync(shown).sort()).toEqual(names.toSorted());
    for (const name of names) expect(content(name)).toBe('content');
    expect(await alert().count()).toBe(0);
    expect(outside()).toEqual(untouched);
  });

  test('asks once before it replaces many files, in a dialog that fits the page', async () => {
    const names = ['L'.repeat(255), ...Array.from({ length: 7 }, (_, index) => `name-${index}`)];
    for (const name of names) writeFileSync(join(shown, name), 'old');
    await drop(names.map((name) => ({ name })));
    const dialog = page.getByRole('dialog');
    const long = `${'L'.repeat(80)}…`;
    await dialog.getByText(`contains ${long}, name-0, name-1, name-2, name-3 and 3 more.`).waitFor();
    await dialog.getByRole('button', { name: 'Replace' }).click();
    await page.getByText('8 files uploaded').waitFor();
    for (const name of names) expect(content(name)).toBe('content');
    await drop([{ name: names[0]! }]);
    await dialog.getByRole('heading', { name: `Replace ${long}?`, exact: true }).waitFor();
    const { scroll, client } = await dialog.evaluate(({ scrollWidth, clientWidth }) => ({
      scroll: scrollWidth,
      client: clientWidth,
    }));
    expect(scroll).toBe(client);
    await page.keyboard.press('Escape');
  });

  test('ignores the relative path of a file', async () => {
    await drop([{ name: 'x.txt', relativePath: '../../x.txt' }]);
    await page.getByRole('listitem').filter({ hasText: 'x.txt' }).waitFor();
    expect([readdirSync(shown), outside()]).toEqual([['x.txt'], untouched]);
  });

  test('of files of the disk has the same rules', async () => {
    const disk = mkdtempSync(join(folder, 'disk-'));
    const names = ['-rf', 'back\\slash', 'line\nbreak', 'x\u202egnp.sh', 'zero\u200bwidth'];
    const paths = names.map((name) => join(disk, name));
    for (const path of paths) writeFileSync(path, 'content');
    await page.getByLabel('Files to upload').setInputFiles(paths);
    await page.getByRole('listitem').filter({ hasText: '-rf' }).waitFor();
    expect((await alert().textContent())!.match(/\S+ was not uploaded/g)).toEqual(
      ['back\\slash', 'line\ufffdbreak', 'x\ufffdgnp.sh', 'zero\ufffdwidth'].map(
        (name) => `${name} was not uploaded`,
      ),
    );
    expect([readdirSync(shown), outside()]).toEqual([['-rf'], untouched]);
  });

  test('of a folder is refused', async () => {
    const disk = mkdtempSync(join(folder, 'disk-'));
    mkdirSync(join(disk, 'tree/sub'), { recursive: true });
    writeFileSync(join(disk, 'tree/sub/file'), 'content');
    writeFileSync(join(disk, 'single'), 'content');
    const box = (await page.locator('.file-pane').boundingBox())!;
    const devtools = await page.context().newCDPSession(page);
    onTestFinished(() => devtools.detach());
    const data = { items: [], files: [join(disk, 'tree'), join(disk, 'single')], dragOperationsMask: 1 };
    for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
      const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
      await devtools.send('Input.dispatchDragEvent', { type, ...at, data });
    }
    await page.getByRole('listitem').filter({ hasText: 'single' }).waitFor();
    expect(await alert().textContent()).toContain('tree is a folder and was not uploaded');
    expect([readdirSync(shown), outside()]).toEqual([['single'], untouched]);
  });

  test('does not follow a symbolic link in the folder', async () => {
    symlinkSync(join(base, 'kept'), join(shown, 'link'));
    symlinkSync(join(base, 'created'), join(shown, 'dangling'));
    await drop([{ name: 'link' }, { name: 'dangling' }]);
    await alert()
      .filter({ hasText: 'dangling was not uploaded' })
      .filter({ hasText: 'symbolic link' })
      .waitFor();
    expect(await alert().textContent()).toContain(
      'link was not uploaded. The folder has a symbolic link of this name',
    );
    expect([outside(), readFileSync(join(base, 'kept'), 'utf8')]).toEqual([untouched, 'kept']);
  });

  test('reports at most five refused files one by one', async () => {
    await drop(Array.from({ length: 8 }, (_, index) => ({ name: `../${index}` })));
    await alert().filter({ hasText: '3 more were not uploaded.' }).waitFor();
    expect((await alert().textContent())!.match(/\.\.\/\d/g)).toHaveLength(5);
  });

  test('is not needed for a name to be shown with its hidden characters replaced', async () => {
    const names = ['line\nbreak', 'x\u202egnp.sh', 'zero\u200bwidth'];
    for (const name of names) writeFileSync(join(shown, name), 'content');
    await page.evaluate(() => dispatchEvent(new Event('filesChanged')));
    const replaced = ['line\ufffdbreak', 'x\ufffdgnp.sh', 'zero\ufffdwidth'];
    await eventually(() => page.locator('.entries .ellipsis').allTextContents()).toEqual(replaced);
    await page.getByRole('listitem').filter({ hasText: 'zero' }).click();
    await page.getByRole('heading', { name: 'zero\ufffdwidth' }).waitFor();
  });

  test('no page has reported a defect', () => {
    expect(browser.defects).toEqual([]);
  });
});
