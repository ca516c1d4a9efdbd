import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
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
import { CommandUser } from '../support/private-server.ts';
import { ENVIRONMENT, startExecutorProgram, TestRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';
import { firstLine } from '../unit/cli/run-cli.ts';

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
const eventually = <T>(probe: () => T) => expect.poll(probe, { timeout: 15_000 });

/** The hosts of further consoles that pages have opened. */
const hosts: string[] = [];

const startField = (page: Page) => page.getByLabel('Command to start');

test('the first view has at most 200 KB, the terminal included', () => {
  const assets = join(import.meta.dirname, '../../dist/console-page/assets');
  const later = /^(addon-search|player|icon)-/;
  const first = readdirSync(assets).filter((name) => !later.test(name));
  const bytes = first.reduce((sum, name) => sum + gzipSync(readFileSync(join(assets, name))).length, 0);
  expect(first.length).toBeGreaterThanOrEqual(3);
  expect(bytes).toBeLessThan(200 * 1024);
});

describe.skipIf(!hasChromium)('the page of the console', () => {
  test('signs in with a link that works once', async () => {
    const link = await consoleLink(server);
    const first = await browser.open(link);
    await isOnline(first);
    expect(first.url()).not.toContain('code=');
    const second = await browser.open(link);
    await second.getByText('This link does not work any more').waitFor();
    await second.goto(first.url());
    await second.reload();
    await second.getByText('Sign in with a link').waitFor();
    await Promise.all([first.context().close(), second.context().close()]);
  });

  test('starts a command on a terminal, which this browser still drives after a reload', async () => {
    await page.keyboard.press('n');
    await page.keyboard.type('echo hello-$((6*7)); read -r line; exit 3');
    await page.keyboard.press('Enter');
    await seesText(page, 'hello-42');
    await hasRole(page, 'driver');
    await page.reload();
    await hasRole(page, 'driver');
    await seesText(page, 'hello-42');
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
      page.getByRole('button', { name: 'Download' }).click(),
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
    await page.getByLabel('Files to upload').setInputFiles([
      { name: 'data.bin', mimeType: 'application/octet-stream', buffer: content },
      { name: '..', mimeType: 'text/plain', buffer: Buffer.from('trick') },
    ]);
    await eventually(() => readdirSync(folder)).toContain('data.bin');
    expect(readFileSync(join(folder, 'data.bin')).equals(content)).toBe(true);
    await page.getByRole('alert').filter({ hasText: 'was not uploaded' }).waitFor();
    await page.getByRole('listitem').filter({ hasText: 'data.bin' }).filter({ hasText: '3.0 MB' }).waitFor();
    await page
      .getByLabel('Files to upload')
      .setInputFiles([{ name: 'notes.md', mimeType: 'text/plain', buffer: Buffer.from('other') }]);
    await page.getByRole('heading', { name: 'Replace notes.md?' }).waitFor();
    await page.keyboard.press('Enter');
    expect(readFileSync(path, 'utf8')).toBe(saved);

    await client.run(['mkfifo', join(folder, 'pipe')]);
    await goTo(page, `files/${folder}/pipe`);
    await page.getByText('This is a special file').waitFor();
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
    await goTo(page, 'recordings');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download the recording' }).first().click(),
    ]);
    expect(readFileSync(await download.path(), 'utf8')).toMatch(/^\{"version":3/);
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
    await goTo(viewer, `files/${folder}`);
    await viewer.locator('.entries').waitFor();
    expect(await viewer.getByRole('button', { name: /Upload|New folder|Delete|Edit/ }).count()).toBe(0);
    await viewer.context().close();
    await shell.terminate();
  });

  test('of the command console switches between environments, also to one behind a relay', async () => {
    const user = new CommandUser();
    const relay = await TestRelay.open();
    const executor = startExecutorProgram(relay);
    onTestFinished(() => executor.stop().finally(() => Promise.all([relay.close(), user.close()])));
    await waitFor('the executor', () => executor.stderr().includes('connected to'));
    const token = user.workspace.file('relay.token', relay.token('harness'));
    const config = join(user.workspace.path, '.config/exec-server');
    mkdirSync(config, { recursive: true });
    await user.run(['env', 'add', 'near', server.url!]);
    const behind = ['env', 'add', 'behind', relay.harnessUrl, '--token-file', token];
    expect(await user.run([...behind, '--environment-id', ENVIRONMENT])).toMatchObject({ code: 0 });
    const file = join(config, 'environments.toml');
    writeFileSync(file, `default = "near"\n${readFileSync(file, 'utf8')}`);

    const run = user.start(['console', '--no-open']);
    onTestFinished(() => void run.child.kill('SIGKILL'));
    const link = await firstLine(run);
    hosts.push(new URL(link).host);
    const own = await browser.open(link);
    const picker = own.getByRole('combobox', { name: 'Environment' });
    await eventually(() => picker.locator('option').allTextContents()).toEqual(['near', 'behind', 'local']);
    for (const name of ['local', 'near', 'behind']) {
      await picker.selectOption(name);
      await isOnline(own);
      await startField(own).fill(`echo ${name}-$((6*7)); exit 3`);
      await own.keyboard.press('Enter');
      await seesText(own, `${name}-42`);
      await own.locator('.facts', { hasText: 'Exit 3' }).waitFor();
      // Commands of the private server begin in the directory of the console.
      if (name === 'local') await own.locator('.facts', { hasText: user.workspace.path }).waitFor();
    }
    await goTo(own, 'machine');
    await own.getByText('No facts about the machine of behind').waitFor();
    const commands = (await client.processes.list()).map(({ argv }) => argv.join(' ')).join('\n');
    expect(commands).toContain('echo near-');
    expect(commands).not.toContain('echo behind-');
    run.child.kill('SIGTERM');
    await own.getByText('The console has ended').waitFor();
    await own.context().close();
  });

  test('signing out ends every tab of the browser', async () => {
    const own = await openConsole(browser, server);
    const tab = await own.context().newPage();
    await tab.goto(own.url());
    await isOnline(tab);
    await own.getByRole('button', { name: 'Sign out' }).click();
    await own.getByText('You are signed out').waitFor();
    await tab.getByText('You are signed out').waitFor();
    await own.reload();
    await own.getByText('You are signed out').waitFor();
    await own.context().close();
  });

  test.each([
    ['expired', 'Your session has expired'],
    ['kicked', 'Your session was ended'],
  ])('a session that is %s has its own message', async (error, text) => {
    const own = await openConsole(browser, server);
    await own.route('**/console/ticket', (route) =>
      route.fulfill({ status: 401, json: { error, message: 'over' } }),
    );
    browser.proxy.cut();
    browser.proxy.restore();
    await own.getByText(text).waitFor();
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
    expect([...browser.hosts].sort()).toEqual([new URL(server.url!).host, ...hosts].sort());
  });
});
