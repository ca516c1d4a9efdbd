import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { asBuffer } from '../base/as-buffer.ts';
import { embeddedFiles } from '../base/embedded-files.ts';

/** A file of the page. */
interface PageFile {
  readonly type: string;
  readonly bytes: Buffer;
  /** Null where compression does not help. */
  readonly gzip: Buffer | null;
}

/** The built page: its HTML, and its assets by name. */
export interface PageFiles {
  readonly html: string;
  readonly assets: ReadonlyMap<string, PageFile>;
}

/**
 * Finds the page in the built package, whether this module runs as source, as a built module, or in the bundle: the relative path is
 * the same from `src/console`, `dist/console` and `dist/bin`.
 */
export function packagePageFolder(): string {
  return fileURLToPath(new URL('../../dist/console-page', import.meta.url));
}

/**
 * Reads all files of the page into memory. Only these names can be requested, so a request never becomes a path. Rejects when the
 * page is not there.
 */
export async function readPageFiles(folder: string): Promise<PageFiles> {
  const html = (await readPageFile(folder, 'index.html')).toString();
  const names = (await assetNames(folder)).filter((name) => TYPES[extname(name)] !== undefined);
  const { gzip } = await import('node:zlib');
  const compress = promisify<Buffer, Buffer>(gzip);
  const assets = new Map<string, PageFile>();
  for (const name of names) {
    const bytes = await readPageFile(folder, `assets/${name}`);
    const { type, compressible } = TYPES[extname(name)]!;
    assets.set(name, { type, bytes, gzip: compressible ? await compress(bytes) : null });
  }
  return { html, assets };
}

async function readPageFile(folder: string, path: string): Promise<Buffer> {
  if (embeddedFiles === null) return await readFile(join(folder, path));
  return asBuffer(embeddedFiles.read(EMBEDDED_PAGE + path));
}

async function assetNames(folder: string): Promise<string[]> {
  if (embeddedFiles !== null) {
    const prefix = `${EMBEDDED_PAGE}assets/`;
    return embeddedFiles.paths
      .filter((path) => path.startsWith(prefix))
      .map((path) => path.slice(prefix.length));
  }
  const entries = await readdir(join(folder, 'assets'), { withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

/** Where the single executable has the page. */
const EMBEDDED_PAGE = 'console-page/';

const text = (type: string) => ({ type: `${type}; charset=utf-8`, compressible: true });
const binary = (type: string, compressible = false) => ({ type, compressible });

/** By file extension. Other files are not served. */
const TYPES: Readonly<Record<string, { readonly type: string; readonly compressible: boolean }>> = {
  '.js': text('text/javascript'),
  '.css': text('text/css'),
  '.json': text('application/json'),
  '.webmanifest': text('application/manifest+json'),
  '.svg': text('image/svg+xml'),
  '.wasm': binary('application/wasm', true),
  '.png': binary('image/png'),
  '.ico': binary('image/x-icon'),
  '.woff2': binary('font/woff2'),
};
