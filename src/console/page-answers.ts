import type { IncomingMessage } from 'node:http';
import { type Answer, fail } from './answers.ts';
import type { OwnOrigin } from './own-origin.ts';
import { type PageFiles, readPageFiles } from './page-files.ts';
import { CONSOLE_PATH } from './paths.ts';
import { pagePolicy } from './security-headers.ts';

/** Serves the files of the page. They are read with the first request. */
export class PageAnswers {
  readonly #folder: string;
  #files: Promise<PageFiles | null> | null = null;

  constructor(folder: string) {
    this.#folder = folder;
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
    if (path === `${CONSOLE_PATH}/`) return page(files, origin);
    const asset = path.startsWith(ASSETS) ? files.assets.get(path.slice(ASSETS.length)) : undefined;
    if (asset === undefined) return fail(404, 'notFound', 'the console has no such address');
    const { type, bytes, gzip } = asset;
    const isCompressed = gzip !== null && /\bgzip\b/.test(String(headers['accept-encoding'] ?? ''));
    return {
      status: 200,
      body: isCompressed ? gzip : bytes,
      headers: {
        'content-type': type,
        // The name contains a hash of the content.
        'cache-control': 'private, max-age=31536000, immutable',
        vary: 'Accept-Encoding',
        ...(isCompressed && { 'content-encoding': 'gzip' }),
      },
    };
  }
}

const ASSETS = `${CONSOLE_PATH}/assets/`;

function page({ html }: PageFiles, { host, secure }: OwnOrigin): Answer {
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
