// Takes a picture of every view of the web console: light and dark, on a desktop and on a phone.
// Usage: node scripts/console-screenshots.mjs [FOLDER]. Needs the build and Chromium. Default folder: build/screenshots.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { chromium } from 'playwright-core';
import { connect } from '../dist/client/index.js';
import { runServer } from '../dist/server/serve.js';
import { CHROMIUM, CHROMIUM_FLAGS } from '../tests/support/chromium-program.mjs';

const target = resolve(process.argv[2] ?? 'build/screenshots');
const home = mkdtempSync(join(tmpdir(), 'console-screenshots-'));
const project = join(home, 'shop');
const SIZES = {
  desktop: { viewport: { width: 1280, height: 800 } },
  phone: { viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true },
};

prepareProject();
const server = await runServer({
  console: true,
  logLevel: 'error',
  auditLog: join(home, 'audit.jsonl'),
  recordDir: join(home, 'recordings'),
});
const empty = await runServer({ console: true, logLevel: 'error', recordDir: join(home, 'none') });
const client = await connect(server.url);
const browser = await chromium.launch({ executablePath: CHROMIUM, args: CHROMIUM_FLAGS });
try {
  const refs = await startPrograms();
  mkdirSync(target, { recursive: true });
  for (const [size, options] of Object.entries(SIZES)) {
    for (const colorScheme of ['light', 'dark']) await photograph(size, colorScheme, options, refs);
  }
} finally {
  await browser.close();
  await client.close();
  await Promise.all([server.close(), empty.close()]);
  rmSync(home, { recursive: true, force: true });
}
process.stdout.write(`${target}\n`);

/** Takes all pictures of one size and theme. */
async function photograph(size, colorScheme, options, refs) {
  const context = await browser.newContext({ ...options, colorScheme, reducedMotion: 'reduce' });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const shoot = (name) => page.screenshot({ path: join(target, `${name}-${size}-${colorScheme}.png`) });
  const show = async (place, ready) => {
    await page.evaluate((to) => {
      location.hash = `#/server/${to}`;
    }, place);
    await page.locator(ready).first().waitFor();
  };

  await open(page, empty);
  await page.getByText('Nothing runs here yet').waitFor();
  await shoot('processes-empty');
  await show('recordings', '.empty');
  await shoot('recordings-empty');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You are signed out').waitFor();
  await shoot('signed-out');

  await open(page, server, true);
  await page.getByRole('row').first().waitFor();
  await shoot('processes-viewer');
  await show(`processes/${refs.vim}`, '[data-role=viewer]');
  await shoot('terminal-viewer');

  await open(page, server);
  await page.locator('.cell-ports .chip').first().waitFor({ state: 'attached' });
  await shoot('processes');
  await page.getByLabel('Options').click();
  await shoot('processes-options');
  await page.getByLabel('Options').click();
  await page.getByRole('button', { name: 'End web' }).click();
  await shoot('end-dialog');
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor();
  await shoot('shortcuts');
  await page.keyboard.press('Escape');
  await show(`processes/${refs.tests}`, '.xterm-rows span');
  await page.getByText('tests passed').first().waitFor();
  await show(`processes/${refs.vim}`, '[data-role=driver]');
  await page.locator('.xterm-rows', { hasText: 'price' }).waitFor();
  await shoot('terminal');
  await page.getByRole('button', { name: 'Search in the terminal' }).click();
  await page.getByLabel('Text to find').fill('total');
  await page.getByText(/ of \d/).waitFor();
  await shoot('terminal-search');
  await page.keyboard.press('Escape');
  await show(`processes/${refs.web}`, '.line');
  await shoot('output');
  await show(`files/${project}`, '.entries li');
  await page.locator('.entry-facts').first().waitFor({ state: 'attached' });
  await shoot('files');
  await show(`files/${project}/src/cart.ts`, '.file-text');
  await shoot('file');
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.locator('textarea').waitFor();
  await page.keyboard.type('// A change\n');
  await shoot('file-editor');
  await page.getByRole('button', { name: 'Discard' }).click();
  await page.getByRole('button', { name: 'Edit' }).waitFor();
  await show(`files/${project}/logo.png`, '.empty');
  await shoot('file-binary');
  await show('recordings', '.recording');
  await shoot('recordings');
  await page.locator('.recording-main', { hasText: 'sh tests.sh' }).first().click();
  await page.locator('.ap-player', { hasText: 'tests passed' }).waitFor();
  await shoot('player');
  await show('machine', '.cards .card');
  await shoot('machine');
  await page.getByRole('button', { name: /^Show all \d+ checks/ }).click();
  await page.getByRole('region', { name: 'Audit log' }).scrollIntoViewIfNeeded();
  await shoot('machine-audit');
  await context.close();
}

/** Signs the page in with a new link. */
async function open(page, { url }, readOnly = false) {
  const origin = url.replace('ws:', 'http:');
  const answer = await fetch(`${origin}/console/code`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ readOnly }),
  });
  await page.goto(`${origin}/console/#code=${(await answer.json()).code}`);
  await page.locator('[data-connection=online]').waitFor({ state: 'attached' });
}

/** Starts programs of every kind, and returns the references of those that are shown. */
async function startPrograms() {
  const start = async (argv, options) => {
    const program = await client.spawn(argv, { cwd: project, detached: true, ...options });
    return { ref: program.ref, ended: () => program.wait(), detach: () => program.detach() };
  };
  const failed = await start(['sh', '-c', 'echo "error: no such table: orders" >&2; exit 1'], {
    name: 'migrate',
  });
  await failed.ended();
  const slow = await start(['sh', '-c', 'sleep 60'], { name: 'backup', limits: { wallMs: 50 } });
  await slow.ended();
  const tests = await start(['sh', 'tests.sh'], { name: 'tests', tty: true });
  await tests.ended();
  const web = await start([process.execPath, 'server.cjs'], { name: 'web' });
  const shell = await start(['bash', '--norc'], { tty: true });
  const vim = await start(['vim', '-u', 'NONE', '-N', '--cmd', 'syntax on', 'src/cart.ts'], {
    name: 'editor',
    tty: true,
  });
  await Promise.all([failed, slow, tests, web, shell, vim].map((program) => program.detach()));
  return { web: web.ref, vim: vim.ref, tests: tests.ref };
}

function prepareProject() {
  mkdirSync(join(project, 'src'), { recursive: true });
  const files = {
    'README.md': '# Shop\n\nA small shop.\n',
    'package.json': '{\n  "name": "shop",\n  "type": "module"\n}\n',
    'logo.png': Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1, 2, 3]),
    'tests.sh':
      'for name in cart checkout invoices orders prices; do printf "\\033[32m✓\\033[0m %s\\n" "$name"; sleep 0.1; done\nprintf "\\n\\033[1;32m5 tests passed\\033[0m in 1.4 s\\n"\n',
    'server.cjs':
      "const s = require('http').createServer();\ns.listen(0, '127.0.0.1', () => console.log('listening on http://127.0.0.1:' + s.address().port));\nconsole.log('reading 214 products');\nconsole.error('warning: no cache configured');\n",
    'src/cart.ts':
      "import type { Item } from './item.ts';\n\n/** The total of a cart, in cents. */\nexport function total(items: readonly Item[]): number {\n  return items.reduce((sum, { price, count }) => sum + price * count, 0);\n}\n\n/** Orders above this total are shipped for free. */\nexport const FREE_SHIPPING = 5_000;\n\nexport function shipping(items: readonly Item[]): number {\n  return total(items) >= FREE_SHIPPING ? 0 : 495;\n}\n",
    'src/item.ts': 'export interface Item {\n  readonly price: number;\n  readonly count: number;\n}\n',
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(join(project, name), content);
}
