import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect } from '../../src/client/index.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { Certificates } from '../support/certificates.ts';
import { hasChromium, TestBrowser } from '../support/chromium.ts';
import { goTo, hasRole, isOnline, seesText, typeKeys } from '../support/console-page.ts';
import { CommandUser } from '../support/private-server.ts';
import { ENVIRONMENT, type RunningProgram, startExecutorProgram, TestRelay } from '../support/relay.ts';
import { SshMachine } from '../support/ssh-machine.ts';
import { sshMissing } from '../support/sshd.mjs';
import { waitFor } from '../support/wait-for.ts';
import { type CliRun, firstLine } from '../unit/cli/run-cli.ts';

const TOKEN = 'the-token-of-the-server-with-tls';
const user = new CommandUser();
const certificates = new Certificates();
const hasSsh = sshMissing() === null;
let near: RunningServer;
let socket: RunningServer;
let secure: RunningServer;
let authority: string;
let relay: TestRelay;
let executor: RunningProgram;
let machine: SshMachine | null = null;
let browser: TestBrowser;
let run: CliRun;
let link: string;
let page: Page;

/** Adds an environment as a user does. */
async function add(name: string, url: string, ...flags: string[]): Promise<void> {
  expect(await user.run(['env', 'add', name, url, ...flags])).toMatchObject({ code: 0 });
}

beforeAll(async () => {
  if (!hasChromium) return;
  mkdirSync(join(user.workspace.path, '.config/exec-server'), { recursive: true });
  const signer = certificates.authority('authority');
  authority = signer.cert;
  const { cert, key } = certificates.signedBy(signer, 'server');
  const wsTokenSha256 = createHash('sha256').update(TOKEN).digest('hex');
  const tls = { listen: 'wss://127.0.0.1:0', tlsCert: cert, tlsKey: key };
  [near, socket, secure, relay, machine] = await Promise.all([
    runServer({ logLevel: 'error' }),
    runServer({ logLevel: 'error', listen: `unix://${user.workspace.path}/shared.sock` }),
    runServer({ logLevel: 'error', ...tls, wsAuth: 'capability-token', wsTokenSha256 }),
    TestRelay.open(),
    hasSsh ? SshMachine.start(user) : null,
  ]);
  executor = startExecutorProgram(relay);
  browser = await TestBrowser.launch();
  await waitFor('the executor', () => executor.stderr().includes('connected to'));
  await add('near', near.url!);
  await add('socket', socket.url!);
  await add('gone', 'ws://127.0.0.1:1');
  const token = user.workspace.file('server.token', TOKEN);
  await add('secure', secure.url!, '--token-file', token, '--tls-ca', authority);
  const relayToken = user.workspace.file('relay.token', relay.token('harness'));
  await add('behind', relay.harnessUrl, '--token-file', relayToken, '--environment-id', ENVIRONMENT);
  if (machine !== null) await add('remote', machine.url);
  const file = join(user.workspace.path, '.config/exec-server/environments.toml');
  writeFileSync(file, `default = "near"\n${readFileSync(file, 'utf8')}`);
  run = user.start(['console', '--no-open'], machine?.env);
  link = await firstLine(run);
  page = await browser.open(link);
});
afterAll(async () => {
  run?.child.kill('SIGKILL');
  await browser?.close();
  await executor?.stop();
  await Promise.all([near, socket, secure, relay, machine].map((each) => each?.close()));
  await user.close();
  certificates.remove();
});

/** The commands that a server in this process has run. */
async function commandsOf(server: RunningServer): Promise<string> {
  const url = server.url!;
  const tls = server === secure ? { authToken: TOKEN, tls: { ca: readFileSync(authority, 'utf8') } } : {};
  const client = await connect({ url, ...tls });
  try {
    return (await client.processes.list()).map(({ argv }) => argv.join(' ')).join('\n');
  } finally {
    await client.close();
  }
}

describe.skipIf(!hasChromium)('the page of the command console', () => {
  test('offers every environment, the default one first', async () => {
    const options = page.getByRole('combobox', { name: 'Environment' }).locator('option');
    await expect
      .poll(() => options.allTextContents())
      .toEqual(['near', 'socket', 'gone', 'secure', 'behind', ...(hasSsh ? ['remote'] : []), 'local']);
  });

  test('says that an environment cannot be reached, in its view and in the list', async () => {
    const picker = page.getByRole('combobox', { name: 'Environment' });
    await picker.selectOption('gone');
    await page.getByText('Cannot reach gone').waitFor();
    await page.getByText('ECONNREFUSED').or(page.getByText('refused')).first().waitFor();
    await page.getByRole('button', { name: 'Try now' }).waitFor();
    await picker.locator('option', { hasText: 'gone (unreachable)' }).waitFor({ state: 'attached' });
    await picker.selectOption('near');
    await isOnline(page);
    await page.getByText('Cannot reach gone').waitFor({ state: 'detached' });
  });

  test.each<[string, string]>([
    ['a server without tokens', 'near'],
    ['a unix socket', 'socket'],
    ['a server with TLS and a token', 'secure'],
    ['a relay', 'behind'],
    ['the private server', 'local'],
    ...(hasSsh ? ([['ssh', 'remote']] as [string, string][]) : []),
  ])('shows the processes behind %s, and a terminal that takes keys', async (_, name) => {
    await goTo(page, 'processes');
    await page.getByRole('combobox', { name: 'Environment' }).selectOption(name);
    await isOnline(page);
    await page
      .getByLabel('Command to start')
      .fill(`echo ${name}-$((6*7)); read -r line; echo "got-$line $XDG_RUNTIME_DIR"; exit 3`);
    await page.keyboard.press('Enter');
    await seesText(page, `${name}-42`);
    await hasRole(page, 'driver');
    await typeKeys(page, 'keys\n');
    await seesText(page, 'got-keys');
    await page.locator('.facts', { hasText: 'Exit 3' }).waitFor();
    // Commands of the private server begin in the directory of the console.
    if (name === 'local') await page.locator('.facts', { hasText: user.workspace.path }).waitFor();
    if (name === 'remote') {
      await seesText(page, machine!.user.runtime);
      const home = machine!.user.workspace.path;
      await page.locator('.facts', { hasText: home }).waitFor();
      await goTo(page, 'files');
      await expect.poll(() => page.getByLabel('Path').inputValue()).toBe(home);
    }
    await goTo(page, 'processes');
    const rows = page.getByRole('grid', { name: 'Processes' }).getByRole('row');
    await rows
      .filter({ hasText: `echo ${name}-` })
      .filter({ hasText: 'Exit 3' })
      .waitFor();
  });

  test('has run each command in its environment only', async () => {
    const own = [near, socket, secure];
    const commands = await Promise.all(own.map(commandsOf));
    const names = commands.map((text) => text.match(/(?<=echo )[a-z]+(?=-\$)/g));
    expect(names).toEqual([['near'], ['socket'], ['secure']]);
  });

  test('has no facts about other machines, and says when the command has ended', async () => {
    await page.getByRole('combobox', { name: 'Environment' }).selectOption('behind');
    await isOnline(page);
    await goTo(page, 'machine');
    await page.getByText('No facts about the machine of behind').waitFor();
    run.child.kill('SIGTERM');
    await page.getByText('The console has ended. Run exec-server console and open its link').waitFor();
  });

  test('has reported no defect and asked no other host', () => {
    expect(browser.defects).toEqual([]);
    expect([...browser.hosts]).toEqual([new URL(link).host]);
  });
});
