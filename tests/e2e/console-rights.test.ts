import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { connect, type ExecServerClient } from '../../src/client/index.ts';
import { signToken } from '../../src/server/auth/signed-token.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { hasChromium, TestBrowser } from '../support/chromium.ts';
import { ConsoleBrowser } from '../support/console-browser.ts';
import { consoleLink, goTo, isOnline } from '../support/console-page.ts';

const SECRET = 'a secret of at least thirty-two bytes';
const folder = mkdtempSync(join(tmpdir(), 'console-rights-'));
const [secretFile, auditLog, revokedTokens, recordDir] = ['secret', 'audit.jsonl', 'revoked', 'records'].map(
  (name) => join(folder, name),
) as [string, string, string, string];
let server: RunningServer;
let browser: TestBrowser;
/** Owns the programs that others look at. */
let ann: ExecServerClient;

/** A token with these limits, or with all rights of its subject. */
function tokenOf(sub: string, limits?: { scopes: string[]; path?: string }): string {
  const exp = Math.floor(Date.now() / 1000) + 600;
  return signToken({ exp, sub, jti: sub, ...(limits && { exec_server: limits }) }, SECRET);
}

async function openWith(token: string): Promise<Page> {
  const page = await browser.open(await consoleLink(server, false, token));
  await isOnline(page);
  return page;
}

/** Polls until the assertion holds. */
const eventually = <T>(probe: () => T) => expect.poll(probe);

beforeAll(async () => {
  if (!hasChromium) return;
  writeFileSync(secretFile, SECRET);
  writeFileSync(revokedTokens, '');
  server = await runServer({
    console: true,
    logLevel: 'error',
    wsAuth: 'signed-bearer-token',
    wsSharedSecretFile: secretFile,
    auditLog,
    revokedTokens,
    recordDir,
  });
  ann = await connect({ url: server.url!, authToken: tokenOf('ann') });
  browser = await TestBrowser.launch();
});
afterAll(async () => {
  await browser?.close();
  await ann?.close();
  await server?.close();
  rmSync(folder, { recursive: true });
});

/** A program of ann that listens on a port. */
async function listener(): Promise<{ ref: string; port: string }> {
  const script =
    "const s = require('net').createServer().listen(0, '127.0.0.1', () => console.log(s.address().port))";
  const program = await ann.spawn([process.execPath, '-e', script], { detached: true });
  onTestFinished(() => program.kill().then(() => {}));
  let port = '';
  for await (const event of program.events()) {
    if (event.type !== 'output') continue;
    port += Buffer.from(event.bytes).toString();
    if (port.includes('\n')) break;
  }
  return { ref: program.ref!, port: port.trim() };
}

describe.skipIf(!hasChromium)('the rights of a token in the page', () => {
  test('a token that is limited to a directory can look at, save and upload the files in it', async () => {
    const below = join(folder, 'below');
    mkdirSync(below);
    writeFileSync(join(below, 'text.txt'), 'old\n', { mode: 0o755 });
    const own = await openWith(tokenOf('files', { scopes: ['files'], path: below }));
    // The token does not allow the view of processes, so the page begins with the files.
    await own
      .getByLabel('Files to upload')
      .setInputFiles({ name: 'new.txt', mimeType: '', buffer: Buffer.from('new') });
    await own.getByRole('listitem').filter({ hasText: 'new.txt' }).waitFor();
    expect(readFileSync(join(below, 'new.txt'), 'utf8')).toBe('new');
    await own.getByRole('listitem').filter({ hasText: 'text.txt' }).click();
    await own.getByRole('button', { name: 'Edit' }).click();
    await own.locator('textarea:focus').waitFor();
    await own.keyboard.type('mine ');
    await own.keyboard.press('Control+s');
    await own.getByText('text.txt saved').waitFor();
    const { mode } = statSync(join(below, 'text.txt'));
    expect([readFileSync(join(below, 'text.txt'), 'utf8'), mode & 0o777]).toEqual(['mine old\n', 0o755]);

    // The text of a file outside may be another person's.
    await own.evaluate(
      (paths) => {
        const file = { text: 'x', byteOrderMark: '', endings: '\n' };
        const all = paths.map((path) => ({ environment: 'server', path, version: '1', file }));
        sessionStorage.setItem('exec-server-console.drafts', JSON.stringify(all));
      },
      [
        join(folder, 'below.txt'),
        join(below, '../up.txt'),
        `${below}/../dots.txt`,
        join(below, 'inside.txt'),
      ],
    );
    await goTo(own, 'machine');
    await own.reload();
    await eventually(() => own.locator('.kept-drafts b').allTextContents()).toEqual(['inside.txt']);

    await goTo(own, 'recordings');
    await own.getByText('No access to recordings').waitFor();
    await goTo(own, 'processes');
    await own.getByText('No access to processes').waitFor();
    const refused = () =>
      readFileSync(auditLog, 'utf8')
        .split('\n')
        .filter((line) => line.includes('"refused"'))
        .map((line) => JSON.parse(line).method);
    expect(refused()).toEqual([]);

    // The command console does not know the rights of a token. The server refuses once for each view.
    await own.route('**/console/session', async (route) => {
      const answer = await route.fetch();
      const { scopes, ...session } = await answer.json();
      await route.fulfill({ json: { ...session, scopes: { ...scopes, processes: true } } });
    });
    await own.clock.install();
    await own.reload();
    await own.getByText('No access to processes').waitFor();
    await eventually(refused).toEqual(['process/list']);
    await own.clock.runFor(20_000);
    await goTo(own, 'recordings');
    await own.getByText('No access to recordings').waitFor();
    await own.clock.runFor(20_000);
    // This answer comes after those to all earlier requests.
    await goTo(own, `files/${below}/new.txt`);
    await own.locator('.file-text', { hasText: 'new' }).waitFor();
    await eventually(refused).toEqual(['process/list', 'recordings/list']);
    await own.context().close();
  });

  test('a token for watching shows the programs, ports and recordings of all owners', async () => {
    const { ref, port } = await listener();
    const page = await openWith(tokenOf('eve', { scopes: ['observe'] }));
    const row = page.getByRole('row').filter({ hasText: ref });
    await row.getByText(`:${port}`, { exact: true }).waitFor();
    await page.getByLabel('Filter processes').fill(`:${port}`);
    await eventually(() => page.getByRole('grid').getAttribute('aria-rowcount')).toBe('1');
    await row.getByRole('link').click();
    await page.locator('.facts', { hasText: `:${port}` }).waitFor();
    await goTo(page, 'recordings');
    await page.getByRole('listitem').getByText('Recording', { exact: true }).waitFor();
    await page.getByLabel('All owners').uncheck();
    await page.getByText('No recordings yet').waitFor();
    await page.context().close();
  });

  test('All owners adds the programs of others, with their owners and ports', async () => {
    const { ref, port } = await listener();
    const boss = tokenOf('boss', { scopes: ['exec', 'observe', 'files', 'net', 'metrics'] });
    const own = await connect({ url: server.url!, authToken: boss });
    await own.run(['echo', 'mine'], { detached: true });
    const page = await openWith(boss);
    const grid = page.getByRole('grid', { name: 'Processes' });
    await eventually(() => grid.getAttribute('aria-rowcount')).toBe('1');
    await page.getByLabel('All owners').check();
    const row = page.getByRole('row').filter({ hasText: ref });
    await row.getByText('ann', { exact: true }).waitFor();
    await row.getByText(`:${port}`, { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Running' }).click();
    await eventually(() => grid.getAttribute('aria-rowcount')).toBe('1');
    await page.getByRole('button', { name: 'Ended' }).click();
    await page.getByRole('row').filter({ hasText: 'echo mine' }).waitFor();
    expect(await row.count()).toBe(0);

    // The machine has its checks, metrics and what was audited.
    await goTo(page, 'machine');
    const section = (name: string) => page.getByRole('region', { name, exact: true });
    await section('Checks')
      .getByText(/^\d of 4 pass$/)
      .waitFor();
    await section('Checks').getByRole('button', { name: 'Show all 4 checks' }).click();
    await section('Checks').getByText('ripgrep').waitFor();
    await section('Server').getByText('Connections', { exact: true }).waitFor();
    const record = section('Latest records').locator('.audit-row').filter({ hasText: 'boss' });
    await record.filter({ hasText: 'argv=["echo","mine"]' }).first().waitFor();
    await page.context().close();
    await own.close();
  });

  test('a session ends for every reason with its own page', async () => {
    const [kicked, expired] = await Promise.all(['lost', 'old'].map((sub) => openWith(tokenOf(sub))));
    // Each asks once more for a ticket, and no more after it has learnt that its session is over.
    let tickets = 0;
    for (const page of [kicked!, expired!]) {
      page.on('request', (request) => {
        if (request.url().endsWith('/ticket')) tickets++;
      });
    }
    writeFileSync(revokedTokens, 'lost\n');
    await server.reload();
    await kicked!.getByRole('heading', { name: 'Your session was ended' }).waitFor();
    await kicked!.getByText('its token was revoked').first().waitFor();
    await isOnline(expired!);

    const later = Date.now() + 13 * 3_600_000;
    const now = vi.spyOn(Date, 'now').mockReturnValue(later);
    onTestFinished(() => now.mockRestore());
    // The server looks for sessions that have expired with each request that has a cookie.
    const { port } = new URL(server.url!);
    const cookie = `exec-server-console-${port}=unknown`;
    await new ConsoleBrowser(`http://127.0.0.1:${port}`).get('session', { cookie });
    now.mockRestore();
    await expired!.getByRole('heading', { name: 'Your session has expired' }).waitFor();
    expect(tickets).toBe(2);
    await Promise.all([kicked!.context().close(), expired!.context().close()]);
  });

  test('no page has reported a defect or asked another host', () => {
    expect(browser.defects).toEqual([]);
    expect([...browser.hosts]).toEqual([new URL(server.url!).host]);
  });
});
