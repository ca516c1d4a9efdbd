import type { IncomingMessage } from 'node:http';
import { type Answer, fail } from './answers.ts';
import type { OwnOrigin } from './own-origin.ts';
import { type PageFiles, readPageFiles } from './page-files.ts';
import { CONSOLE_PATH, newNonce } from './paths.ts';
import { pagePolicy } from './security-headers.ts';

/** Where the built page has its assets. */
const ASSETS = `${CONSOLE_PATH}/assets/`;

/** The page of a server names another command for a new link than that of the command `console`. */
type ServedBy = 'server' | 'command';

/**
 * Serves the files of the page. They are read with the first request. Their addresses contain a secret of this run: another server may
 * have had the port before, and a browser may have kept what that one sent for addresses that it could guess.
 */
export class PageAnswers {
  readonly #folder: string;
  readonly #servedBy: ServedBy;
  readonly #assets = `${ASSETS}${newNonce()}/`;
  #files: Promise<PageFiles | null> | null = null;

  constructor(folder: string, servedBy: ServedBy) {
    this.#folder = folder;
    this.#servedBy = servedBy;
  }

  async answer({ method, headers }: IncomingMessage, path: string, origin: OwnOrigin): Promise<Answer> {
    if (method !== 'GET' && method !== 'HEAD') {
      return fail(405, 'badRequest', 'this needs GET', { allow: 'GET,HEAD' });
    }
    if (path === CONSOLE_PATH) {
      return { status: 308, body: '', headers: { location: `${CONSOLE_PATH}/` } };
    }
    this.#files ??= readPageFiles(this.#folder).catch(() => {
      // The page may be built later.
      this.#files = null;
      return null;
    });
    const files = await this.#files;
    if (files === null) {
      return fail(
        503,
        'failed',
        "the page of the console is not in this package; 'npm run build' creates it",
      );
    }
    if (path === `${CONSOLE_PATH}/`) {
      const html = files.html.replaceAll(ASSETS, this.#assets).replace('SERVED_BY', this.#servedBy);
      return page(html, origin);
    }
    const asset = path.startsWith(this.#assets)
      ? files.assets.get(path.slice(this.#assets.length))
      : undefined;
    if (asset === undefined) return fail(404, 'notFound', 'the console has no such address');
    const { type, bytes, gzip } = asset;
    const isCompressed = gzip !== null && /\bgzip\b/.test(String(headers['accept-encoding'] ?? ''));
    return {
      status: 200,
      body: isCompressed ? gzip : bytes,
      headers: {
        'content-type': type,
        'cache-control': 'private, max-age=31536000, immutable',
        vary: 'Accept-Encoding',
        ...(isCompressed && { 'content-encoding': 'gzip' }),
      },
    };
  }
}

function page(html: string, { host, secure }: OwnOrigin): Answer {
  return {
    status: 200,
    body: html,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      // A request for a page does not say whether a proxy in front of a listener without TLS has TLS.
      ...pagePolicy([...(secure ? [] : [`ws://${host}`]), `wss://${host}`]),
    },
  };
}
