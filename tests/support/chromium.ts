import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { BrowserProxy } from './browser-proxy.ts';
import { CHROMIUM, CHROMIUM_FLAGS } from './chromium-program.mjs';

export const hasChromium = CHROMIUM !== undefined;

/** A browser for the tests of one file. All requests go through a proxy, and every defect that a page reports is kept. */
export class TestBrowser {
  readonly proxy: BrowserProxy;
  /** Exceptions, violations of the content security policy and errors in the consoles of all pages. */
  readonly defects: string[] = [];
  /** The hosts that pages have sent requests to. */
  readonly hosts = new Set<string>();
  readonly #browser: Browser;

  private constructor(browser: Browser, proxy: BrowserProxy) {
    this.#browser = browser;
    this.proxy = proxy;
  }

  static async launch(): Promise<TestBrowser> {
    const proxy = await BrowserProxy.start();
    const browser = await chromium.launch({
      executablePath: CHROMIUM!,
      args: CHROMIUM_FLAGS,
      proxy: { server: proxy.url, bypass: '<-loopback>' },
    });
    return new TestBrowser(browser, proxy);
  }

  /** Opens an address in a new context: with other cookies and another storage. */
  async open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await this.#browser.newContext({ viewport: { width: 1200, height: 760 }, ...options });
    context.setDefaultTimeout(15_000);
    const page = await context.newPage();
    page.on('pageerror', (error) => this.defects.push(`exception: ${error.message}`));
    page.on('console', (message) => {
      // The browser reports each answer that is not a success, and each request that fails.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
        this.defects.push(message.text());
      }
    });
    context.on('request', (request) => {
      if (!request.url().startsWith('blob:')) this.hosts.add(new URL(request.url()).host);
    });
    page.on('websocket', (socket) => this.hosts.add(new URL(socket.url()).host));
    await page.goto(url);
    return page;
  }

  async close(): Promise<void> {
    await this.#browser.close();
    await this.proxy.close();
  }
}
