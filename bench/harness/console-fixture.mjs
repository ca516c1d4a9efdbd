import { startServer } from '../../scripts/reference.mjs';
import { CHROMIUM, CHROMIUM_FLAGS } from '../../tests/support/chromium-program.mjs';
import { ours } from './servers.mjs';

export { chromiumMissing } from '../../tests/support/chromium-program.mjs';

const WAIT_MS = 30_000;

/**
 * @typedef {object} BenchConsole
 * @property {import('playwright-core').BrowserContext} browser It is signed in.
 * @property {(ref: string) => string} urlOf The address of a process; of the table with an empty reference.
 * @property {() => Promise<any>} connect A new client of the server. It is closed with the fixture.
 */

/**
 * A server with its web console, and a browser that is signed in.
 * @param {import('../workloads/index.mjs').Context} context
 * @param {(fixture: BenchConsole) => Promise<Record<string, number>>} measure
 */
export async function withConsole(context, measure) {
  const { command, args } = context.server;
  const server = await startServer(command, [...args, '--listen', 'ws://127.0.0.1:0', '--console'], {
    // Reading this file costs a Node program 50 ms at its start, which has nothing to do with the measurement.
    env: { NODE_EXTRA_CA_CERTS: undefined },
  });
  const clients = [];
  const connect = async () => {
    const { ExecServerClient } = await ours('client/index.js');
    const client = await ExecServerClient.connect(server.url);
    clients.push(client);
    return client;
  };
  try {
    const page = `${server.url.replace('ws:', 'http:').replace(/\/$/, '')}/console/`;
    const urlOf = (ref) => `${page}#//processes/${ref}`;
    return await withBrowser(async (browser) => {
      await signIn(browser, page);
      return measure({ browser, urlOf, connect });
    });
  } finally {
    for (const client of clients) await client.close();
    await server.stop();
  }
}

/** Starts a program on a terminal that no client drives, so that the page does. Returns its reference. */
export async function startTerminal({ connect }, argv) {
  const client = await connect();
  const { ref } = await client.spawn(argv, { tty: true, detached: true });
  await client.close();
  return ref;
}

/** Playwright ends the browser when this process exits. */
async function withBrowser(use) {
  const { chromium } = await import('playwright-core');
  const program = await chromium.launch({ executablePath: CHROMIUM, args: CHROMIUM_FLAGS });
  try {
    const browser = await program.newContext({ viewport: { width: 1200, height: 760 } });
    browser.setDefaultTimeout(WAIT_MS);
    return await use(browser);
  } finally {
    await program.close();
  }
}

/** Signs in with a link that the server makes for local clients. */
async function signIn(browser, url) {
  const answer = await fetch(`${url}code`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ readOnly: false }),
  });
  if (!answer.ok) throw new Error(`the console makes no link: ${await answer.text()}`);
  const page = await browser.newPage();
  await page.goto(`${url}#code=${(await answer.json()).code}`);
  await page.locator('[data-connection=online]').waitFor();
  await page.close();
}
